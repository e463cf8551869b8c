// Package guard has the limits on a controller that do not depend on what it
// controls: how old data may be, how far a clock may jump, how many changes an
// hour may have and how far apart they are.
//
// They are small values with explicit time. They know nothing of replicas or
// requests, and no other package of ours.
package guard
