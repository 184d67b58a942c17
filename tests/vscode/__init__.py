"""The extension for VS Code: its manifest against its source and the daemon; test-vscode runs the rest."""
