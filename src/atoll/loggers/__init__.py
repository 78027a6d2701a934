"""Loggers: callbacks that hand a run's scores to TensorBoard, MLflow or Weights & Biases."""
