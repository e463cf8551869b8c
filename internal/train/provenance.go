package train

import (
	"fmt"
	"runtime/debug"

	"github.com/sigma-scheduler/sigma/swarm"
)

// settings is everything that decides the result of a training run: all but
// workers and files.
type settings struct {
	Model       string          `json:"model"`
	Knowledge   string          `json:"knowledge"`
	Features    []string        `json:"features"`
	Parameters  []string        `json:"parameters"`
	Objectives  []string        `json:"objectives,omitempty"`
	Optimizer   string          `json:"optimizer"`
	Evaluations int             `json:"evaluations"`
	Particles   int             `json:"particles"`
	Orders      int             `json:"orders"`
	Snapshots   float64         `json:"snapshots"`
	Seed        uint64          `json:"seed"`
	Risk        float64         `json:"risk"`
	Start       string          `json:"start"`
	Guard       float64         `json:"guard,omitempty"`
	Reference   string          `json:"reference,omitempty"`
	Reach       float64         `json:"reach,omitempty"`
	Against     []string        `json:"against,omitempty"`
	Untied      bool            `json:"untied,omitempty"`
	Sample      int             `json:"sample,omitempty"`
	Renew       int             `json:"renew,omitempty"`
	Retry       bool            `json:"retry,omitempty"`
	Repair      string          `json:"repair,omitempty"`
	Rebalance   string          `json:"rebalance,omitempty"`
	MovePrice   float64         `json:"move_price,omitempty"`
	Traces      []traceIdentity `json:"traces"`
}

type traceIdentity struct {
	Name     string `json:"name"`
	Trace    string `json:"trace"`
	Instance string `json:"instance"`
}

func (e *evaluator) settings(sp *space) (settings, error) {
	c := e.cfg
	s := settings{
		Model: sp.model, Knowledge: sp.knowledge.String(), Features: sp.features, Parameters: sp.parameters,
		Objectives: c.Objectives, Optimizer: c.Optimizer, Evaluations: c.Evaluations, Particles: c.Particles,
		Orders: c.Orders, Snapshots: c.Snapshots, Seed: c.Seed, Risk: c.Risk, Reach: c.Reach, Untied: c.Untied, Retry: c.Retry,
		MovePrice: c.MovePrice, Against: c.Against,
	}
	if c.Sample > 0 {
		s.Sample, s.Renew = c.Sample, c.Renew
	}
	if c.Particles == 0 {
		s.Particles = swarm.DefaultParticles
	}
	if c.Start != nil {
		s.Start = c.Start.Digest()
	}
	if c.Guard > 0 {
		s.Guard, s.Reference = c.Guard, c.Reference
	}
	if c.Repair != nil {
		s.Repair = c.Repair.String()
	}
	if c.Rebalance != nil {
		s.Rebalance = c.Rebalance.String()
	}
	for _, t := range c.Traces {
		instance, whole, err := t.Digests()
		if err != nil {
			return s, fmt.Errorf("trace %q: %w", t.Name, err)
		}
		s.Traces = append(s.Traces, traceIdentity{t.Name, whole, instance})
	}
	return s, nil
}

// provenance describes how the policy was trained.
func (e *evaluator) provenance(s settings, r swarm.Result) map[string]any {
	traces := make([]any, len(s.Traces))
	for i, t := range s.Traces {
		traces[i] = map[string]any{"name": t.Name, "trace": t.Trace, "instance": t.Instance}
	}
	p := map[string]any{
		"optimizer":   s.Optimizer,
		"particles":   s.Particles,
		"evaluations": r.Evaluations,
		"replays":     r.Evaluations * e.cfg.Replays(),
		"stop":        string(r.Stop),
		"seed":        s.Seed,
		"orders":      s.Orders,
		"risk":        s.Risk,
		"snapshots":   s.Snapshots,
		"fitness":     round(r.Value),
		"traces":      traces,
	}
	if s.Start != "" {
		p["start"] = s.Start
	}
	if s.Guard > 0 {
		p["guard"], p["reference"] = s.Guard, s.Reference
	}
	if len(s.Against) > 0 {
		p["against"] = s.Against
	}
	if s.Untied {
		p["untied"] = true
	}
	if s.Retry {
		p["retry"] = true
	}
	if s.Repair != "" {
		p["repair"] = s.Repair
	}
	if s.Rebalance != "" {
		p["rebalance"] = s.Rebalance
	}
	if s.MovePrice > 0 {
		p["move_price"] = s.MovePrice
	}
	if s.Reach > 0 {
		p["reach"] = s.Reach
	}
	if s.Sample > 0 {
		p["sample"], p["renew"] = s.Sample, s.Renew
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		p["module"] = info.Main.Path + " " + info.Main.Version
	}
	return p
}
