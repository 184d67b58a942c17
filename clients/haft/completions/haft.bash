# Completion of haft in bash.
# Bash splits words at = and : as well; haft gets whole words, and candidates lose the part that bash keeps.
_haft() {
    local IFS=$' \t\n' words=() word="" before="" index rest="${COMP_LINE:0:COMP_POINT}" current breaks
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word="${COMP_WORDS[index]}"
        # A blank before this piece begins a new word.
        before="${rest%%"${word}"*}"
        rest="${rest#*"${word}"}"
        if ((index == 0)) || [[ "$before" =~ [[:blank:]] || -z "$word" && "${COMP_LINE:COMP_POINT-1:1}" == [[:blank:]] ]]; then
            words+=("$word")
        else
            words[${#words[@]} - 1]+="$word"
        fi
    done
    current="${words[${#words[@]} - 1]}"
    # A quotation that is still open, or single characters that are quoted.
    local quote=""
    case "$current" in
        [\"\']*) quote="${current:0:1}" current="${current:1}" ;;
        *) current="${current//\\/}" ;;
    esac
    words[${#words[@]} - 1]="$current"
    breaks=""
    [[ "$current" == *[=:]* && "$COMP_WORDBREAKS" == *[=:]* ]] && breaks="${current%"${current##*[=:]}"}"
    COMPREPLY=()
    local value
    while IFS=$'\t' read -r value _; do
        value="${value#"$breaks"}"
        # Within quotation marks bash quotes by itself.
        [[ -n "$quote" ]] || printf -v value %q "$value"
        [[ -n "$quote" || "$value" == *[=/] ]] || value+=" "
        COMPREPLY+=("$value")
    done < <(haft __complete "$current" "${words[@]}" 2>/dev/null)
}
# The candidates stand in a useful order; bash before 4.4 sorts them.
complete -o nospace -o nosort -F _haft haft 2>/dev/null || complete -o nospace -F _haft haft
