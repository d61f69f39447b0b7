// Products of float32 on matrix units, for Ampere and newer: of matrices, and of the windows of a convolution. See three.cuh.
#include "three.cuh"

#define THREE_AS(name, PRODUCT, BM, BN, WM, WN, ST, G, PARTS, OCCUPANCY)                                                       \
  KERNEL __launch_bounds__(BM / WM * (BN / WN) * 32 * G, OCCUPANCY) void name(const __grid_constant__ PRODUCT p) {           \
    product<PRODUCT, BM, BN, WM, WN, ST, G, PARTS>(p);                                                                       \
  }
#define THREE(size, ...) THREE_AS(three_##size, MatrixProduct, __VA_ARGS__)
THREE(128x128, 128, 128, 64, 32, 3, 1, 3, 1)
THREE(128x64, 128, 64, 32, 32, 3, 1, 3, 2)
THREE(64x64, 64, 64, 32, 32, 3, 1, 3, 3)
THREE(32x64, 32, 64, 16, 32, 3, 1, 3, 4)
THREE(64x64_by2, 64, 64, 32, 32, 3, 2, 3, 1)
THREE(32x32_by4, 32, 32, 16, 16, 3, 4, 3, 1)
#define WINDOWS(size, ...)                                     \
  THREE_AS(windows_f32_##size, WindowProduct, __VA_ARGS__, 3, 2) \
  THREE_AS(windows_tf32_##size, WindowProduct, __VA_ARGS__, 1, 2)
WINDOWS(128x64, 128, 64, 64, 32, 3, 1)
WINDOWS(64x64, 64, 64, 32, 32, 3, 1)
WINDOWS(32x64, 32, 64, 16, 32, 3, 1)
