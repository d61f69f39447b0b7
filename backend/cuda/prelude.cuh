// What stands before a user's CUDA C++: the parameter of its kernel, and elements of all types. Functions are the device's by default.
struct Op {
  void *x[8], *y[4];
  long long count_x[8], count_y[4], size_x[8][8], size_y[4][8];
  double attrs[8];
};
struct Half { unsigned short bits; };
struct BFloat16 { unsigned short bits; };
struct Bool { unsigned char bits; };
template <class T> T load(const T* p) { return *p; }
inline float load(const Half* p) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(p->bits));
  return x;
}
inline float load(const BFloat16* p) { return __uint_as_float((unsigned)p->bits << 16); }
inline unsigned load(const Bool* p) { return p->bits; }
template <class T, class V> void store(T* p, V v) { *p = (T)v; }
inline void store(Half* p, float v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p->bits) : "f"(v)); }
inline void store(BFloat16* p, float v) {
  unsigned b = __float_as_uint(v);
  p->bits = v != v ? 0x7fff : (unsigned short)(b + 0x7fff + (b >> 16 & 1) >> 16);
}
inline void store(Bool* p, unsigned v) { p->bits = v != 0; }
inline long long within(long long i, long long n) { return i < 0 ? 0 : i < n ? i : n - 1; }
