"""A fabric as a picture: ``svg.fabric_svg(fabric)``. Pure; every panel is a list of marks with positions."""
