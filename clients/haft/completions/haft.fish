# Completion of haft in fish: values with their descriptions.
function __haft_candidates
    set -l words (commandline -opc)
    # Without a quotation mark that is still open, and without backslashes.
    set -l current (commandline -ct | string replace -r '^["\']' '' | string unescape)
    haft __complete "$current" $words "$current" 2>/dev/null
end
complete -c haft -f -k -a '(__haft_candidates)'
