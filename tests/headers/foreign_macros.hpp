#pragma once

// Macros of other libraries, as their headers define them: a program may include those before Reef's or behind. The
// standard library does not bear all of these; units include it, and what else Reef's headers include, before this.

// Qt
#define slots
#define signals public
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)

// <complex.h> where it is C's, as under -std=gnu++20
#undef I
#undef complex
#define complex _Complex
#define _Complex_I (__extension__ 1.0iF)
#define I _Complex_I

// <AssertMacros.h> of Apple, where functions are shorter, and macros like them of many programs
#define check(assertion)
#define verify(assertion) ((void)(assertion))
#define require(assertion, label) \
  do {                            \
    if (!(assertion)) goto label; \
  } while (false)
#define ensure(assertion) ((void)(assertion))
#define check_noerr(error)
#define verify_noerr(error) ((void)(error))
#define require_noerr(error, label) require((error) == 0, label)

// Xlib, with X.h and Xutil.h
#undef Bool
#undef Status
#undef True
#undef False
#define Bool int
#define Status int
#define True 1
#define False 0
#undef None
#undef Always
#undef Success
#undef Above
#undef Below
#undef Complex
#undef Nonconvex
#undef Convex
#undef Unsorted
#undef KeyPress
#undef KeyRelease
#undef Expose
#undef Opposite
#undef GrayScale
#undef StaticGray
#undef TrueColor
#undef PseudoColor
#undef CursorShape
#undef FocusIn
#undef FocusOut
#undef FillSolid
#undef ControlMask
#undef ButtonPress
#undef MotionNotify
#undef Button1
#define None 0L
#define Always 2
#define Success 0
#define Above 0
#define Below 1
#define Complex 0
#define Nonconvex 1
#define Convex 2
#define Unsorted 0
#define KeyPress 2
#define KeyRelease 3
#define Expose 12
#define Opposite 4
#define GrayScale 1
#define StaticGray 0
#define TrueColor 4
#define PseudoColor 3
#define CursorShape 0
#define FocusIn 9
#define FocusOut 10
#define FillSolid 0
#define ControlMask (1 << 2)
#define ButtonPress 4
#define MotionNotify 6
#define Button1 1

// GLib, <sys/param.h>, <sys/sysmacros.h>
#undef TRUE
#undef FALSE
#undef MIN
#undef MAX
#undef ABS
#undef CLAMP
#undef major
#undef minor
#undef makedev
#define TRUE 1
#define FALSE 0
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ABS(a) ((a) < 0 ? -(a) : (a))
#define CLAMP(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))
#define major(device) gnu_dev_major(device)
#define minor(device) gnu_dev_minor(device)
#define makedev(major, minor) gnu_dev_makedev(major, minor)

// What a compiler defines under -std=gnu++20
#undef unix
#undef linux
#define unix 1
#define linux 1

// <windows.h>, which some programs have on Linux too
#define near
#define far
#define small char
#define interface struct
#define IN
#define OUT
#define OPTIONAL
#define CONST const
#define VOID void
#define STRICT 1
#define ERROR 0

// Logging of many programs
#define DEBUG 1
#define INFO 0
#define WARNING 1
#define FATAL 3
#define LOG(level) (level)
#define CHECK(assertion) ((void)(assertion))
#define TRACE(text) ((void)(text))

// Perl
#define Copy(from, to, count, type) memcpy(to, from, (count) * sizeof(type))
#define Move(from, to, count, type) memmove(to, from, (count) * sizeof(type))
#define Zero(to, count, type) memset(to, 0, (count) * sizeof(type))

// <windows.h>, <X11/Xos.h>, f2c.h
#undef min
#undef max
#undef abs
#undef index
#undef rindex
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define abs(x) ((x) >= 0 ? (x) : -(x))
#define index(s, c) (strchr((s), (c)))
#define rindex(s, c) (strrchr((s), (c)))
