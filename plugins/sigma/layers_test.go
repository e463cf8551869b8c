package sigma

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/policy"
)

// layers is a model whose scorer records the calls above it. Like the model shipped, it leaves each
// decision to another scorer.
type layers struct{ packages []string }

func (*layers) Knowledge() binpack.Knowledge                 { return binpack.K0 }
func (l *layers) Scorer(*binpack.State) binpack.Scorer       { return l }
func (l *layers) Deciding() (binpack.Scorer, binpack.Choice) { return (*recorder)(l), binpack.Choice{} }
func (*layers) Score(binpack.Item, []int32, []float64)       { panic("another scorer decides") }

type recorder layers

// Score records the packages of this module on the stack, the innermost first.
func (r *recorder) Score(_ binpack.Item, _ []int32, out []float64) {
	const module = "github.com/sigma-scheduler/sigma/"
	clear(out)
	calls := make([]uintptr, 64)
	frames := runtime.CallersFrames(calls[:runtime.Callers(2, calls)])
	r.packages = nil
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		name, ours := strings.CutPrefix(f.Function, module)
		if !ours || strings.HasSuffix(f.File, "_test.go") {
			continue
		}
		slash := strings.LastIndexByte(name, '/') + 1
		dot := strings.IndexByte(name[slash:], '.')
		if name = name[:slash+dot]; len(r.packages) == 0 || r.packages[len(r.packages)-1] != name {
			r.packages = append(r.packages, name)
		}
	}
}

var layersOf layers

func init() {
	policy.Register(&learned.Model{
		Name:       "layers",
		Features:   []learned.Feature{{Name: "full"}, {Name: "frag"}, {Name: "closing"}}, // those of hand-k0
		Parameters: []learned.Parameter{{Name: "alpha", High: 10}},
		Build:      func(learned.Spec) (binpack.Policy, error) { return &layersOf, nil },
	})
}

// Between the framework's call and the score are four packages, and the model is the fifth: docs/map.md draws them.
func TestLayersOfAPod(t *testing.T) {
	s := newStage(t, nil)
	s.addNodes(node("a", 8), node("b", 8))
	s.decideBy(shipped(t, "hand-k0", func(spec *policy.Spec) { spec.Model = "layers" }))
	p := pod("new", "web").Obj()
	c := s.filter(p)
	s.score(c, p)
	require.Len(t, c.feasible, 2)
	require.Equal(t, []string{"binpack", "plugins/ledger", "plugins/engine", "plugins/sigma"}, layersOf.packages)
}
