"""Federated covariate shift adaptation."""
