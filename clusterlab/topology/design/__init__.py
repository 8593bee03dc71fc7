"""Designs: fabrics written by hand as YAML, networks generated from numbers, and fabrics saved as YAML."""
