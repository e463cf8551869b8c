// Package instances has the kinds of `sigma-lab generate` that sigma does not have: families of one
// dimension and of many, on which research on bin packing is measured.
package instances

import "github.com/sigma-scheduler/sigma/benchdata/generate"

func init() {
	for _, k := range []generate.Kind{weibull, orlib, wide} {
		generate.Register(k)
	}
}
