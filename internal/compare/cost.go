package compare

import (
	"math/big"
	"strconv"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan"
)

// costOf is the cost of the machines of a packing that hold an item, as the first ones did before. It is the sum of the costs as
// they are written, rounded once: equal fleets cost the same in any order of their machines.
func costOf(inst *binpack.Instance, packing *plan.Packing, standing int) float64 {
	held := make([]int64, len(inst.Machines))
	for i, m := range packing.Machines {
		if i < standing || len(m.Items) > 0 {
			held[m.Line]++
		}
	}
	total := new(big.Rat)
	for line, n := range held {
		if n > 0 {
			total.Add(total, new(big.Rat).Mul(big.NewRat(n, 1), decimal(inst.Machines[line].Cost)))
		}
	}
	sum, _ := total.Float64()
	return sum
}

// decimal is the shortest decimal number that is read as a float: the one that somebody wrote.
func decimal(v float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	return r
}
