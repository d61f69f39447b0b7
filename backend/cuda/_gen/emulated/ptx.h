// What the instructions in ptx.cuh mean.
#pragma once
DI void start_next() {}
DI void wait_for_last() {}

// Shared memory is addressed from its start. Copies are done when they are waited for, and not before.
DI uint32_t shared_at(const void* p) { return (const char*)p - dynamic; }
DI void copy(uint32_t to, const void* from, int bytes, bool there) { fibers[running].copies.push_back({to, from, bytes, fibers[running].group, there}); }
DI void copy16(uint32_t to, const void* from, bool there) { copy(to, from, 16, there); }
DI void copy4(uint32_t to, const void* from, bool there) { copy(to, from, 4, there); }
DI void commit() { fibers[running].group++; }
template <int N> DI void wait_copies() {
  Fiber& f = fibers[running];
  std::vector<Copy> left;
  for (const Copy& c : f.copies) {
    if (c.group >= f.group - N) left.push_back(c);
    else if (c.there) memcpy(dynamic + c.to, c.from, c.bytes);
    else memset(dynamic + c.to, 0, c.bytes);
  }
  f.copies = left;
}
DI uint32_t word_at(uint32_t at) { return *(uint32_t*)(dynamic + at); }

// Lane l of matrix i has two elements of row l/4, or turned, of column l/4; lanes 8i to 8i + 7 say where its rows are.
DI void matrices(uint32_t (&r)[4], uint32_t at) {
  for (int i = 0; i < 4; i++) r[i] = word_at(among(at, i * 8 + running % 32 / 4) + running % 4 * 4);
}
DI void matrices_transposed(uint32_t (&r)[4], uint32_t at) {
  for (int i = 0; i < 4; i++) {
    uint16_t x[2];
    for (int e = 0; e < 2; e++) x[e] = *(uint16_t*)(dynamic + among(at, i * 8 + running % 4 * 2 + e) + running % 32 / 4 * 2);
    memcpy(&r[i], x, 4);
  }
}

// multiply adds the product of 16 × 8E values, E of which are in a register, and 8E × 8.
template <class A, class B, class S> DI void multiply(S (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  struct Operands {
    uint32_t a[4], b[2];
  };
  static Operands all[MOST];
  const int E = 4 / sizeof(A), lane = running % 32;
  all[running] = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  meet(warp());
  Operands* w = all + running / 32 * 32;
  for (int i = 0; i < 4; i++) {
    int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 8 * E; k++) {
      int other = k % (4 * E) / E, upper = k / (4 * E);
      A x = ((A*)&w[row % 8 * 4 + other].a[row / 8 + 2 * upper])[k % E];
      B y = ((B*)&w[col * 4 + other].b[upper])[k % E];
      if constexpr (sizeof(A) == 1) c[i] += (int)x * (int)y;
      else c[i] = fmaf((float)x, (float)y, c[i]);
    }
  }
  meet(warp());
}
template <class T> DI void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { multiply<T, T>(c, a, b0, b1); }
template <bool SIGNED> DI void mma8(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if (SIGNED) multiply<int8_t, int8_t>(c, a, b0, b1);
  else multiply<uint8_t, int8_t>(c, a, b0, b1);
}
DI uint32_t round_tf32(uint32_t x) { return (x & 0x7fffffff) > 0x7f800000 ? x : (x + 0x1000) & ~0x1fffu; }
DI float power2(float x) { return exp2f(x); }
DI float inverse(float x) { return 1.f / x; }
DI float above(float x, float least) { return x != x || x > least ? x : least; }
