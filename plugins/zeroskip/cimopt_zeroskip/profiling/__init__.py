"""Makes activation profiles from ONNX networks and images."""
