// Convolutions over up to three spatial axes of whatever channels, groups and strides: a thread computes a result by itself. Those of matrix
// units are in three.cu.
#include "windows.cuh"

const int AXES = 3;
struct WindowDirect {
  void *x, *w, *bias, *residual, *y; // bias and residual may be null
  i64 total, image, channel, axis[AXES]; // results, and strides of x
  int size[AXES], positions[AXES], kernel[AXES], stride[AXES], dilation[AXES], before[AXES];
  int channels, outputs, share; // of a group, of all groups and of a group
  WindowAct act;
};

template <class T> DI void direct(const WindowDirect& p) {
  for (i64 n = blockIdx.x * 256ll + threadIdx.x; n < p.total; n += gridDim.x * 256ll) {
    i64 position = n / p.outputs;
    const int m = (int)(n - position * p.outputs);
    int at[AXES];
#pragma unroll
    for (int i = AXES - 1; i >= 0; i--) {
      i64 next = position / p.positions[i];
      at[i] = (int)(position - next * p.positions[i]) * p.stride[i] - p.before[i];
      position = next;
    }
    const T *x = (const T*)p.x + position * p.image + m / p.share * p.channels * p.channel, *w = (const T*)p.w + m;
    float sum = 0.f;
    for (int i = 0; i < p.kernel[0]; i++)
      for (int j = 0; j < p.kernel[1]; j++)
        for (int k = 0; k < p.kernel[2]; k++, w += (i64)p.channels * p.outputs) {
          int a = at[0] + i * p.dilation[0], b = at[1] + j * p.dilation[1], c = at[2] + k * p.dilation[2];
          bool there = (unsigned)a < (unsigned)p.size[0] && (unsigned)b < (unsigned)p.size[1] && (unsigned)c < (unsigned)p.size[2];
          const T* pixel = x + a * p.axis[0] + b * p.axis[1] + c * p.axis[2];
#pragma unroll 4
          for (int e = 0; e < p.channels; e++) // padding is zeros, which times infinity are no number
            sum = fmaf(there ? to_float(pixel[e * p.channel]) : 0.f, to_float(w[(i64)e * p.outputs]), sum);
        }
    if (p.bias) sum += to_float(((const T*)p.bias)[m]);
    sum = p.act(sum);
    if (p.residual) sum += to_float(((const T*)p.residual)[n]);
    ((T*)p.y)[n] = from_float<T>(sum);
  }
}
// Where every channel is a separate group, channels are adjacent and all is whole fours: a thread computes four channels of a position.
KERNEL __launch_bounds__(256, 4) void window_each_f32(const __grid_constant__ WindowDirect p) {
  for (unsigned n = blockIdx.x * 256 + threadIdx.x; n < (unsigned)(p.total / 4); n += gridDim.x * 256) {
    unsigned position = n / (p.outputs / 4);
    const int m = (n - position * (p.outputs / 4)) * 4;
    int at[AXES];
#pragma unroll
    for (int i = AXES - 1; i >= 0; i--) {
      unsigned next = position / p.positions[i];
      at[i] = (int)(position - next * p.positions[i]) * p.stride[i] - p.before[i];
      position = next;
    }
    const float *x = (const float*)p.x + position * p.image + m, *w = (const float*)p.w + m;
    float sums[4] = {};
    for (int i = 0; i < p.kernel[0]; i++)
      for (int j = 0; j < p.kernel[1]; j++) {
        int a = at[0] + i * p.dilation[0], b = at[1] + j * p.dilation[1];
        bool row = (unsigned)a < (unsigned)p.size[0] && (unsigned)b < (unsigned)p.size[1];
        const float* pixel = x + a * p.axis[0] + b * p.axis[1];
#pragma unroll 3
        for (int k = 0; k < p.kernel[2]; k++, w += p.outputs) {
          int c = at[2] + k * p.dilation[2];
          float v[4] = {}, f[4];
          if (row && (unsigned)c < (unsigned)p.size[2]) load4(v, pixel + c * p.axis[2]);
          load4(f, w);
#pragma unroll
          for (int e = 0; e < 4; e++) sums[e] = fmaf(v[e], f[e], sums[e]); // padding is zeros, which times infinity are no number
        }
      }
#pragma unroll 1
    for (int e = 0; e < 4; e++) {
      float v = e == 0 ? sums[0] : e == 1 ? sums[1] : e == 2 ? sums[2] : sums[3];
      if (p.bias) v += ((const float*)p.bias)[m + e];
      v = p.act(v);
      if (p.residual) v += ((const float*)p.residual)[(i64)n * 4 + e];
      sums[0] = e == 0 ? v : sums[0], sums[1] = e == 1 ? v : sums[1], sums[2] = e == 2 ? v : sums[2], sums[3] = e == 3 ? v : sums[3];
    }
    store4((float*)p.y + (i64)n * 4, sums);
  }
}

KERNEL __launch_bounds__(256, 3) void window_f32(const __grid_constant__ WindowDirect p) { direct<float>(p); }
KERNEL __launch_bounds__(256, 3) void window_f16(const __grid_constant__ WindowDirect p) { direct<__half>(p); }
KERNEL __launch_bounds__(256, 3) void window_bf16(const __grid_constant__ WindowDirect p) { direct<__nv_bfloat16>(p); }
