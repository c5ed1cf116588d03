"""Pictures of the documentation, drawn as SVG from the texts in `docs/pictures`."""
