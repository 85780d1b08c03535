/* bcryptprimitives.dll for Wine versions that lack it, for tests only: the standard library of Rust imports one function. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(unsigned char *bytes, SIZE_T length) {
    return RtlGenRandom(bytes, (ULONG)length);
}
