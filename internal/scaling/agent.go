package scaling

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// An Agent of a comparison.
type Agent struct {
	// Name of a rule, "oracle", "learned", "foresight" or the path of a policy.
	Name string
	// Policy of a learned agent, nil for the others.
	Policy *learned.Policy
}

// Agents returns the agents of some names. The policy of "learned" and "foresight" is that
// of a file or, without one, the shipped one; a name that ends in .yaml or .yml is a policy's
// path.
func Agents(names []string, policy string) (list []Agent, err error) {
	for i, name := range names {
		a, path := Agent{Name: name}, policy
		switch {
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("%s is listed twice", name)
		case name == "learned" || name == "foresight":
			a.Policy = learned.General()
		case strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"):
			path = name
		case !slices.Contains(sim.Agents(), name):
			return nil, fmt.Errorf("unknown agent %q: there are %s, and policy files", name, strings.Join(Names(), ", "))
		default:
			path = ""
		}
		if path != "" {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			if a.Policy, err = learned.Parse(path, data); err != nil {
				return nil, err
			}
		}
		list = append(list, a)
	}
	switch {
	case len(list) == 0:
		return nil, errors.New("no agents")
	case policy != "" && !slices.Contains(names, "learned") && !slices.Contains(names, "foresight"):
		return nil, fmt.Errorf("policy %s is for the agents learned and foresight, of which none is listed", policy)
	}
	return list, nil
}

// Weights returns the shipped policy and those in files, for a replay: as the files have
// them, and as a cluster has them that got them by kubectl apply.
func Weights(paths []string) (agents.Weights, error) {
	w := agents.Weights{}
	add := func(name string, data []byte) error {
		p, err := learned.Parse(name, data)
		if err != nil {
			return err
		}
		w.Add(data)
		if data, err = p.Marshal(); err == nil {
			w.Add(data)
		}
		return err
	}
	if err := add("general.yaml", learned.GeneralFile()); err != nil {
		return nil, err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := add(path, data); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Names returns the names of agents that [Agents] knows.
func Names() []string { return append(sim.Agents(), "learned", "foresight") }

// Run simulates an agent. It ignores the agent of the configuration.
func (a *Agent) Run(ctx context.Context, cfg sim.Config) (sim.Result, error) {
	if a.Policy == nil {
		return sim.RunAgent(ctx, cfg, a.Name)
	}
	pair := agents.NewLearned(cfg.App.Target, a.Policy.Values)
	if a.Name == "foresight" {
		pair.First.(*learned.Agent).Ahead = cfg.Told
	}
	cfg.Agent = pair
	return sim.Run(ctx, cfg)
}

// RunLogged is Run with a journal in a folder, APP-AGENT-SEED.jsonl. Agents that know what
// no journal has, "oracle" and "foresight", have none.
func (a *Agent) RunLogged(ctx context.Context, cfg sim.Config, folder string) (r sim.Result, err error) {
	if folder == "" || a.Name == "oracle" || a.Name == "foresight" {
		return a.Run(ctx, cfg)
	}
	spec := mpa.Spec{Name: a.Name}
	if a.Policy != nil {
		spec = mpa.Spec{Name: "learned", Digest: a.Policy.Digest}
	}
	name := strings.TrimSuffix(filepath.Base(a.Name), filepath.Ext(a.Name))
	path := filepath.Join(folder, fmt.Sprintf("%s-%s-%d.jsonl", cfg.App.Name, name, cfg.Seed))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	w, err := journal.Open(path, journal.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var failed error
	note := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	setup := journal.Setup{Object: "simulated/" + cfg.App.Name, Target: cfg.App.Target, Agent: spec, Guards: cfg.Guards}
	note(w.Start(journal.Start{Setup: setup}))
	id := int64(0)
	cfg.Decided = func(o *mpa.Observation, d mpa.Decision) {
		if failed != nil {
			return
		}
		if d.Action == nil {
			note(w.Decision(o, &d, 0))
			return
		}
		id++
		note(w.Decision(o, &d, id))
		note(w.Outcome(journal.Outcome{Time: o.Time, ID: id, Decided: d.Time, Result: "Applied"}))
	}
	r, err = a.Run(ctx, cfg)
	return r, errors.Join(err, failed)
}
