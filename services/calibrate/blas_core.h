// Debian 12's OpenBLAS (0.3.21) takes processors newer than itself for a Prescott and runs six to eight times
// slower; it reads OPENBLAS_CORETYPE as it is loaded, before main.
#ifndef RISKKV_SERVICES_CALIBRATE_BLAS_CORE_H_
#define RISKKV_SERVICES_CALIBRATE_BLAS_CORE_H_

namespace riskkv::calibrate {

// Starts this process anew (same program, same arguments) with the right OPENBLAS_CORETYPE when that helps;
// returns when it does not, or when the variable is set already. Call before threads or files matter: nothing
// survives but the process id.
void RestartWithBetterBlas();

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_BLAS_CORE_H_
