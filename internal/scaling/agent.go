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

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/ddpg"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/phases"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// An Agent of a comparison.
type Agent struct {
	// Name of a rule, "oracle", "learned", "foresight" or the path of a policy or a network.
	Name string
	// Policy of a learned agent, nil for the others.
	Policy *learned.Policy
	// Begin is the phase in which it begins next to hpa+vpa; empty = it acts without phases.
	Begin mpa.LearningPhase
	file  []byte // of the policy
	// Network of an agent "ddpg", nil for the others, with the digest of its file.
	Network *nn.MLP[float32]
	Digest  string
	// Band keeps the network within a band around hpa+vpa.
	Band bool
}

// Agents returns the agents of some names. The policy of "learned" and "foresight" is that of
// a file or, without one, the shipped one; a name that ends in .yaml or .yml is a policy's
// path, one that ends in .json that of a network of the agent "ddpg". With @PHASE behind a
// policy's, as in learned@OfflineTraining, the policy passes through its phases, from that
// one on; with @band behind a network's the network acts within a band around hpa+vpa.
func Agents(names []string, policy string) (list []Agent, err error) {
	for i, name := range names {
		a, path := Agent{Name: name}, policy
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%s is listed twice", name)
		}
		if at := strings.LastIndex(name, "@"); at >= 0 && slices.Contains(mpa.LearningPhases(), mpa.LearningPhase(name[at+1:])) {
			name, a.Begin = name[:at], mpa.LearningPhase(name[at+1:])
		}
		if file, ok := strings.CutSuffix(name, "@band"); ok && strings.HasSuffix(file, ".json") {
			name, a.Band = file, true
		}
		switch {
		case name == "learned" || name == "foresight" && a.Begin == "":
			a.Policy, a.file = learned.General(), learned.GeneralFile()
		case strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"):
			path = name
		case strings.HasSuffix(name, ".json") && a.Begin == "":
			if err := a.readNetwork(name); err != nil {
				return nil, err
			}
			path = ""
		case a.Begin != "" || !slices.Contains(sim.Agents(), name) && !slices.Contains(agents.GatedNames(), name):
			return nil, fmt.Errorf("unknown agent %q: there are %s, files of policies and networks, and learned and policy files with @ and one of %v",
				a.Name, strings.Join(Known(), ", "), mpa.LearningPhases())
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
			a.file = data
		}
		list = append(list, a)
	}
	switch {
	case len(list) == 0:
		return nil, errors.New("no agents")
	case policy != "" && !slices.ContainsFunc(names, func(n string) bool {
		return n == "foresight" || n == "learned" || strings.HasPrefix(n, "learned@")
	}):
		return nil, fmt.Errorf("policy %s is for the agents learned and foresight, of which none is listed", policy)
	}
	return list, nil
}

// readNetwork reads the network in a file.
func (a *Agent) readNetwork(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	a.Digest = agents.Weights{}.Add(data)
	a.Network, err = ddpg.Parse(path, data)
	return err
}

// Weights returns the shipped policy and those in files, and networks in files, for a
// replay: policies as the files have them, and as a cluster has them that got them by
// kubectl apply.
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
		if strings.HasSuffix(path, ".json") {
			_, err = ddpg.Parse(path, data)
			w.Add(data)
		} else {
			err = add(path, data)
		}
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Known returns the names of all agents that [Agents] accepts: those of [Names], and those
// that need the measurements of gates.
func Known() []string { return append(Names(), agents.GatedNames()...) }

// Names returns the names of agents that are compared by default.
func Names() []string { return append(sim.Agents(), "learned", "foresight") }

// Run simulates an agent. It ignores the agent of the configuration.
func (a *Agent) Run(ctx context.Context, cfg sim.Config) (sim.Result, error) {
	switch {
	case a.Network != nil:
		network := ddpg.New(cfg.App.Target, a.Network)
		if cfg.Agent = ddpg.NewAgent(cfg.App.Target, network); a.Band {
			cfg.Agent = ddpg.NewBounded(cfg.App.Target, network)
		}
		return sim.Run(ctx, cfg)
	case a.Policy == nil:
		return sim.RunAgent(ctx, cfg, a.Name)
	}
	if a.Begin != "" {
		setup, weights := a.setup(&cfg), agents.Weights{}
		weights.Add(a.file)
		var err error
		if cfg.Agent, err = setup.NewAgent(weights); err != nil {
			return sim.Result{}, err
		}
		return sim.Run(ctx, cfg)
	}
	pair := agents.NewLearned(cfg.App.Target, a.Policy.Values)
	if a.Name == "foresight" {
		pair.First.(*learned.Agent).Ahead = cfg.Told
	}
	cfg.Agent = pair
	return sim.Run(ctx, cfg)
}

// setup describes the deciding agent of a simulation.
func (a *Agent) setup(cfg *sim.Config) journal.Setup {
	s := journal.Setup{Object: "simulated/" + cfg.App.Name, Target: cfg.App.Target, Agent: mpa.Spec{Name: a.Name}, Guards: cfg.Guards}
	if a.Policy != nil {
		s.Agent = mpa.Spec{Name: "learned", Digest: a.Policy.Digest}
	}
	if a.Network != nil {
		if s.Agent = (mpa.Spec{Name: ddpg.Source, Digest: a.Digest}); a.Band {
			s.Agent.Name = ddpg.Bounded
		}
	}
	if a.Begin != "" {
		settings := phases.DefaultSettings()
		settings.Begin = a.Begin
		s.Learning = &settings
	}
	return s
}

// RunLogged is Run with a journal in a folder, APP-AGENT-SEED.jsonl. Agents with knowledge
// that no journal has, "oracle" and "foresight", have no journal.
func (a *Agent) RunLogged(ctx context.Context, cfg sim.Config, folder string) (r sim.Result, err error) {
	if folder == "" || a.Name == "oracle" || a.Name == "foresight" {
		return a.Run(ctx, cfg)
	}
	name, phase := filepath.Base(a.Name), ""
	if a.Begin != "" {
		phase = "@" + string(a.Begin)
		name = strings.TrimSuffix(name, phase)
	}
	name = strings.TrimSuffix(name, filepath.Ext(name)) + phase
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
	note(w.Start(journal.Start{Setup: a.setup(&cfg)}))
	id, decided := int64(0), cfg.Decided
	cfg.Decided = func(o *mpa.Observation, d mpa.Decision) {
		if decided != nil {
			decided(o, d)
		}
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
