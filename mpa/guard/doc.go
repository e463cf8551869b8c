// Package guard has the limits on a controller that do not depend on the kind of its objects:
// how old data may be, how far a clock may jump, how many changes an hour may have and how
// far apart they are.
//
// They are small values with explicit time. They depend neither on replicas or requests, nor
// on any other package of ours.
package guard
