"""The tool that fetches web pages: addresses, connections and bodies."""
