package sim

import (
	"context"
	"fmt"
	"math"

	"github.com/sigma-scheduler/sigma/mpa"
)

// oracle knows the rate of arrivals to come and what a request costs. It asks for the
// replicas that the largest rate needs which comes before new pods could help, at a
// utilisation that is chosen beforehand. Their size stays that of the start.
type oracle struct {
	cfg         *Config
	utilisation float64
	ahead       float64 // seconds
}

// Recommend implements [mpa.Agent].
func (a *oracle) Recommend(o *mpa.Observation) mpa.Recommendation {
	now := o.Time.Sub(epoch).Seconds()
	most := 0.0
	for t := now; t <= now+a.ahead; {
		rate, until := a.cfg.Load.Rate(t)
		most = max(most, rate)
		t = until
	}
	app := &a.cfg.App
	cores := float64(app.Request.CPU) / 1000
	n := int32(math.Ceil(most * app.cpuPerRequest() / (a.utilisation * cores)))
	return mpa.Recommendation{
		Replicas: max(1, n), Source: "oracle", Reason: fmt.Sprintf("%.4g requests/s at most in the next %.0f s", most, a.ahead),
	}
}

// noGuards let an oracle do what it wants: it does not err.
func noGuards() mpa.Guards {
	g := mpa.DefaultGuards()
	g.ReplicaChanges, g.RequestChanges, g.CoolDown, g.Patience = 1<<30, 1<<30, 0, 0
	return g
}

// utilisations that the oracle tries.
var utilisations = []float64{.95, .9, .85, .8, .75, .7, .65, .6, .5, .4}

// bestOracle tries utilisations from the highest down, with a seed of its own, until
// no more requests are late or lost than half of what the SLO forgives.
func bestOracle(ctx context.Context, cfg Config) (mpa.Agent, error) {
	var agent mpa.Agent
	for _, u := range utilisations {
		agent = &oracle{cfg: &cfg, utilisation: u, ahead: cfg.Site.Interval + 2*cfg.Site.Start.Mean*(1+cfg.Site.Start.CV)}
		trial := cfg
		trial.Seed, trial.Agent, trial.Record = cfg.Seed^1<<40, agent, nil
		r, err := Run(ctx, trial)
		if err != nil {
			return nil, err
		}
		if float64(r.Violations) <= (1-cfg.App.Target.SLO.Percentile/100)*float64(r.Requests)/2 {
			break
		}
	}
	return agent, nil
}

// RunAgent simulates an agent by name; "oracle" is one that knows the load. The
// configuration's own agent is of no effect.
func RunAgent(ctx context.Context, cfg Config, agent string) (Result, error) {
	if err := cfg.App.compile(); err != nil {
		return Result{}, err
	}
	var err error
	if agent == "oracle" {
		cfg.Guards = noGuards()
		cfg.Agent, err = bestOracle(ctx, cfg)
	} else {
		cfg.Agent, err = mpa.NewAgent(agent, cfg.App.Target)
	}
	if err != nil {
		return Result{}, err
	}
	return Run(ctx, cfg)
}
