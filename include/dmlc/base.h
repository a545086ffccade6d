// Configuration macros that programs for ps-lite test or set before they include it.
//
// DMLC_USE_GLOG=1 takes CHECK and LOG from glog; DMLC_LOG_FATAL_THROW=0 makes LOG(FATAL) abort
// where it otherwise throws dmlc::Error. Nothing else of dmlc-core is here.
#ifndef DMLC_BASE_H_
#define DMLC_BASE_H_

#ifndef DMLC_USE_GLOG
#define DMLC_USE_GLOG 0
#endif

#ifndef DMLC_LOG_FATAL_THROW
#define DMLC_LOG_FATAL_THROW 1
#endif

#ifndef DMLC_USE_CXX11
#define DMLC_USE_CXX11 1
#endif

#endif  // DMLC_BASE_H_
