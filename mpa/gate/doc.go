// Package gate limits the requests at once in a pod, and measures the load that the pod
// serves: the windows that package capacity learns from.
//
// A [Gate] holds the limit, which may change at any time, and a bounded queue. A service
// that can be changed wraps its handler with [Gate.Handler] (package gate/rpc has
// interceptors for gRPC). Before one that cannot, command sigma-gate puts a [Proxy].
package gate
