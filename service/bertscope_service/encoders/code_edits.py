"""Places sparse codes on a device, and adds what is active of them to states."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bertscope_service.encoders.sites import Codes
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.transfers import place_arrays


@dataclass(frozen=True, slots=True, eq=False)
class PlacedCodes:
    """Sparse codes on the device; see sites.Codes. encoder, decoder: [codes, size]; biases, thresholds: [codes]."""

    encoder: torch.Tensor
    biases: torch.Tensor
    thresholds: torch.Tensor
    decoder: torch.Tensor
    gain: float

    def activations(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the activations of vectors [n, size], float32 [n, codes]."""
        found = torch.addmm(self.biases, x, self.encoder.T)
        return torch.where(found > self.thresholds, found, 0)

    def total(self, x: torch.Tensor) -> torch.Tensor:
        """Returns what the active codes add to vectors, float32 [n, size]."""
        most = max(1, size_limits(x.device).contribution_bytes // (4 * len(self.biases)))
        return torch.cat([self.activations(part) @ self.decoder for part in x.split(most)]) * self.gain

    def clone(self) -> PlacedCodes:
        """Returns a copy, whose tensors autograd may keep where these were made in inference mode."""
        tensors = self.encoder, self.biases, self.thresholds, self.decoder
        encoder, biases, thresholds, decoder = (values.clone() for values in tensors)
        return PlacedCodes(encoder, biases, thresholds, decoder, self.gain)


def place_codes(codes: Codes, device: torch.device) -> PlacedCodes:
    """Returns codes on a device."""
    arrays = place_arrays(device, codes.encoder, codes.biases, codes.thresholds, codes.decoder)
    encoder, biases, thresholds, decoder = arrays
    return PlacedCodes(encoder, biases, thresholds, decoder, codes.gain)
