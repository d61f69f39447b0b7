// Where the left operand of a product is: it is a matrix, or what the windows of a convolution meet in an image.
#pragma once
#include "common.cuh"

// A window over one or two spatial axes of x [N,high,wide,C]. Row r of the operand is what the window meets at position r, tap by tap;
// strides are in elements, of which x has less than 2³¹.
struct Window {
  i64 image, row, col, channel;
  int high, wide, positions_high, positions_wide, kernel_wide, stride_high, stride_wide, dilation_high, dilation_wide, top, left, channels;
  int whole, pad; // channels are adjacent, in whole fours
};

// Activations of convolutions beside those of products, in the order of windowActs in conv.go.
enum { ACT_SIGMOID = ACT_TANH + 1, ACT_SILU, ACT_HARD_SIGMOID, ACT_HARD_SWISH, ACT_LEAKY_RELU };
DI float within01(float x) { return x < 0.f ? 0.f : x > 1.f ? 1.f : x; }
struct WindowAct {
  int act;
  float alpha, beta;
  DI float operator()(float x) const {
    switch (act) {
    case ACT_SIGMOID: return 1.f / (1.f + expf(-x));
    case ACT_SILU: return x / (1.f + expf(-alpha * x));
    case ACT_HARD_SIGMOID: return within01(alpha * x + beta);
    case ACT_HARD_SWISH: return x * within01(x / 6.f + 0.5f);
    case ACT_LEAKY_RELU: return x < 0.f ? alpha * x : x;
    }
    return activate(act, x);
  }
};

// The rows first, first + step, … of an operand. seek goes to an element of the inner axis, get finds a row's.
template <class T> struct MatrixRows {
  const T* at;
  i64 pitch;
  int rows, first, step;
  DI bool whole() const { return true; } // fours of the inner axis are adjacent
  DI void seek(const T* a, int k) { at = a + k; }
  DI const T* get(int i, bool& there) const {
    there = first + i * step < rows;
    return at + (first + i * step) * pitch;
  }
};
template <class T, int N> struct WindowRows {
  const Window& w;
  const T* at;
  int dy, dx, y[N], x[N], base[N];
  DI bool whole() const { return w.whole; }
  DI WindowRows(const Window& w, int rows, int first, int step) : w(w) {
#pragma unroll
    for (int i = 0; i < N; i++) {
      int r = first + i * step, line = r / w.positions_wide, image = line / w.positions_high;
      y[i] = (line - image * w.positions_high) * w.stride_high - w.top, x[i] = (r - line * w.positions_wide) * w.stride_wide - w.left;
      base[i] = (int)(image * w.image + y[i] * w.row + x[i] * w.col);
      if (r >= rows) y[i] = -(1 << 30); // outside of the image, whatever the tap
    }
  }
  DI void seek(const T* a, int k) {
    int tap = k / w.channels, ky = tap / w.kernel_wide;
    dy = ky * w.dilation_high, dx = (tap - ky * w.kernel_wide) * w.dilation_wide;
    at = a + dy * w.row + dx * w.col + (k - tap * w.channels) * w.channel;
  }
  DI const T* get(int i, bool& there) const {
    there = (unsigned)(y[i] + dy) < (unsigned)w.high && (unsigned)(x[i] + dx) < (unsigned)w.wide;
    return at + base[i];
  }
};
