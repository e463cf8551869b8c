// Package knative brings the learned numbers of a pod to a Knative Service: a Revision with
// them gets a tenth of the requests, and all of them only if it does better. If only another
// target was learned, the Revision that serves gets that, and keeps it if it does no worse
// ([Target]).
//
// [Decide] is pure: it uses no client and no clock. Its memory, a [State], is an annotation
// of the Service, written together with template and traffic in one update. So one is never
// written without the other, and the second of two writers is refused by the version of the
// object. A Revision is written after the state that announces it.
package knative
