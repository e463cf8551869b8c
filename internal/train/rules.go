package train

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/swarm"
)

// Rules is the space of one strategy of kube-scheduler: which, the weights of its resources from 1 to
// 100, and where requestedtocapacityratio is among them a shape with scores from 0 to 10. Ties are broken
// at random in the search.
type Rules struct {
	Names     []string // as in [rule.Choice]
	Resources []string // dimensions
}

const ratio = "requestedtocapacityratio"

// utilisations are those at which the scores of a shape are searched.
var utilisations = []int64{0, 25, 50, 75, 90, 100}

// newSpace has a dimension for the strategy, one for each weight and one for each score.
func (r *Rules) newSpace() *space {
	sp := &space{model: policy.RuleModel, knowledge: binpack.K0, rules: r, features: slices.Concat([]string{"strategy"}, r.Resources), box: swarm.Cube(1+len(r.Resources), 0, 1)}
	if slices.Contains(r.Names, ratio) {
		sp.features = append(sp.features, "shape")
		sp.box = swarm.Cube(1+len(r.Resources)+len(utilisations), 0, 1)
	}
	return sp
}

// choice is the rule at a position, in whole numbers.
func (r *Rules) choice(x []float64) rule.Choice {
	unit := func(v float64) float64 { return min(1, max(0, v)) }
	c := rule.Choice{Name: r.Names[min(len(r.Names)-1, int(unit(x[0])*float64(len(r.Names))))], Resources: map[string]int64{}}
	for i, name := range r.Resources {
		c.Resources[name] = int64(math.Round(math.Pow(100, unit(x[1+i]))))
	}
	if c.Name == ratio {
		for i, u := range utilisations {
			c.Shape = append(c.Shape, []int64{u, int64(math.Round(10 * unit(x[1+len(r.Resources)+i])))})
		}
	}
	return c
}

// position is the inverse of choice; a shape is read at the utilisations that are searched.
func (r *Rules) position(c rule.Choice) []float64 {
	x := []float64{(float64(max(0, slices.Index(r.Names, c.Name))) + .5) / float64(len(r.Names))}
	for _, name := range r.Resources {
		x = append(x, math.Log(float64(max(1, c.Resources[name])))/math.Log(100))
	}
	if !slices.Contains(r.Names, ratio) {
		return x
	}
	for _, u := range utilisations {
		score := float64(u) / 100
		for _, p := range c.Shape {
			if p[0] <= u {
				score = float64(p[1]) / 10
			}
		}
		x = append(x, score)
	}
	return x
}
