"""Why a run is slow: its tables, and what it says of itself."""
