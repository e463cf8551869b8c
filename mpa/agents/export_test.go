package agents

import "slices"

// Unregister undoes a [Register].
func Unregister(name string) {
	kinds = slices.DeleteFunc(kinds, func(k Kind) bool { return k.Name == name })
}
