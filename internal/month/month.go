package month

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/stack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/mpa/agents"
)

// A Stack is a set of programs that run beside each other in a cluster.
type Stack struct {
	Name string // a letter
	Text string
	// config is the part of the configuration that the stack decides.
	config func(t *trace.Trace, u *trace.Usage) (stack.Config, error)
}

// Boot is the time from the launch of a node until pods start on it, in every stack.
const Boot = 90.

const day = 86400.

// Stacks are those of today, then Sigma's.
func Stacks() []Stack {
	vpa := VPAAt(agents.DefaultVPA().Target).config
	sigma := func() (stack.Config, error) {
		p, err := policy.ShippedAt(binpack.K0).Policy()
		empty := stack.DefaultKarpenter()
		empty.Underutilized = false
		return stack.Config{Policy: p, Provisioner: empty, Movers: []stack.Mover{stack.DefaultEmptyNodes()}}, err
	}
	return []Stack{
		{"a", "kube-scheduler and cluster-autoscaler", func(*trace.Trace, *trace.Usage) (stack.Config, error) {
			return stack.Config{Policy: named("leastallocated"), Provisioner: stack.DefaultAutoscaler()}, nil
		}},
		{"b", "MostAllocated and Karpenter", func(*trace.Trace, *trace.Usage) (stack.Config, error) { return most(), nil }},
		{"c", "b with VPA and HPA", vpa},
		{"d", "c with the descheduler", func(t *trace.Trace, u *trace.Usage) (stack.Config, error) {
			c, err := vpa(t, u)
			c.Movers = append(c.Movers, stack.DefaultHighNodeUtilization())
			return c, err
		}},
		{"e", "Sigma's policy and Rebalance", func(*trace.Trace, *trace.Usage) (stack.Config, error) { return sigma() }},
		{"f", "e with sizes by use, Fit and Relief", func(t *trace.Trace, u *trace.Usage) (stack.Config, error) {
			c, err := sigma()
			if err != nil {
				return c, err
			}
			c.Sizer, err = stack.NewByUse(t, u)
			c.Movers = append(c.Movers, stack.DefaultFit(), stack.DefaultRelief())
			return c, err
		}},
	}
}

// VPAAt is the stack c with another percentile of cpu and memory as VPA's target.
func VPAAt(percentile float64) Stack {
	cfg := agents.DefaultVPA()
	cfg.Target = percentile
	cfg.Upper = max(cfg.Upper, percentile)
	return Stack{fmt.Sprintf("c at p%g", 100*percentile), fmt.Sprintf("c with VPA's target at p%g", 100*percentile), func(t *trace.Trace, _ *trace.Usage) (stack.Config, error) {
		c := most()
		c.Sizer = NewVPA(t, cfg)
		return c, nil
	}}
}

// Calm is the stack b with a consolidateAfter, in minutes: a node whose pods changed within that time stays.
func Calm(minutes float64) Stack {
	return Stack{fmt.Sprintf("b after %gm", minutes), fmt.Sprintf("b with consolidateAfter: %gm", minutes), func(*trace.Trace, *trace.Usage) (stack.Config, error) {
		c, k := most(), stack.DefaultKarpenter()
		k.ConsolidateAfter = 60 * minutes
		c.Provisioner = k
		return c, nil
	}}
}

// most is the scheduler and the provisioner of b, c and d.
func most() stack.Config {
	return stack.Config{Policy: named("mostallocated"), Provisioner: stack.DefaultKarpenter()}
}

func named(name string) binpack.Policy {
	p, err := rule.ByName(name, rule.Options{})
	if err != nil {
		panic("month: " + err.Error())
	}
	return p
}

// lead is the time before that which is judged, in seconds: at its beginning all pods wait at once, and VPA has no history.
const lead = 7 * day

// Run simulates a stack: its cluster begins a week before the time that is judged. Sizes by use have all usage before as
// history, VPA that week, seven of its half-lives. Nodes are lost as in the list.
func (s *Stack) Run(t *trace.Trace, u *trace.Usage, from, until float64, lost ...stack.Loss) (stack.Result, error) {
	c, err := s.config(t, u)
	if err != nil {
		return stack.Result{}, fmt.Errorf("stack %s: %w", s.Name, err)
	}
	c.Usage, c.Boot, c.Begin, c.From, c.Until, c.Losses = u, Boot, max(0, from-lead), from, until, lost
	r, err := stack.Run(t, c)
	if err != nil {
		err = fmt.Errorf("stack %s: %w", s.Name, err)
	}
	return r, err
}
