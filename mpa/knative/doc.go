// Package knative brings what was learned of a pod to a Knative Service: a Revision with the learned
// numbers gets a tenth of the requests, and all of them only where it does better. Where only another
// target was learned, the Revision that serves gets that, and keeps it where it does no worse ([Target]).
//
// [Decide] is pure: it knows no client and no clock. What it has to remember, a [State], is an
// annotation of the Service, written together with template and traffic in one update. So there is
// no moment at which the one is written and the other is not, and of two writers the second is
// refused by the version of the object. A Revision is written after the state that says so.
package knative
