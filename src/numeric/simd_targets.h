// The one setting of highway that all of this room must agree on: which targets are built.
//
// Comes before any header of highway, from .cc and -inl.h files only: public headers of the room
// never show a SIMD type. Each kernel is compiled for AVX-512, AVX2, SSE4 and "scalar" and chosen
// at run time; SSSE3 without SSE4 died out in 2008 and is not worth a fifth copy of the code. The
// "scalar" target calls the twin (*_scalar.h), so what every other target is tested against is
// also what an older CPU runs.
//
// Two rules keep all targets equal to the bit:
// - No expression may change if the compiler fuses a multiplication with an addition. GCC fuses
//   across intrinsics, so each product that is added to something is exact by construction.
// - Rounding is left to the CPU's default mode, to nearest even; MXCSR is never touched.
#pragma once

#define HWY_DISABLED_TARGETS HWY_SSSE3
