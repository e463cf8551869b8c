package aware

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/learn/nn"
	"github.com/sigma-scheduler/sigma/internal/learn/rl"
	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/ddpg"
)

const (
	poolFirst = 630_000
	poolSeed  = 1
)

// A transfer is what learners on the pool know of an application besides its state.
type transfer struct {
	name      string
	constants func(ctx context.Context, p *pooled, a *application) ([]float32, error)
	size      int
}

var transfers = []transfer{
	{name: "transfer (TL)", constants: func(context.Context, *pooled, *application) ([]float32, error) { return nil, nil }},
	{name: "transfer with load features (TL+)", constants: func(_ context.Context, _ *pooled, a *application) ([]float32, error) { return a.loadFeatures() }, size: 2},
	{name: "meta-learner's embedding", constants: embeddingOf, size: embeddingSize},
}

// pooled is what was learned on the pool of applications.
type pooled struct {
	apps      []*application
	embedder  *embedder
	transfers [][]byte // whole trainings, by transfer
	paper     *rl.DDPG
	band      *rl.DDPG

	// Cosines of embeddings: of episodes of one application, and of two; and how many are
	// nearest to their own.
	same, others []float64
	recognised   int
}

// pool trains on the pool: the transfers, and the general networks that the test side
// judges.
func (x *experiments) pool(ctx context.Context, group *errgroup.Group) error {
	apps, err := x.applications(poolFirst, x.poolApps, false)
	if err != nil {
		return err
	}
	p := &pooled{apps: apps, transfers: make([][]byte, len(transfers))}
	x.pooled = p
	group.Go(func() (err error) {
		if p.embedder, err = trainEmbedder(ctx, apps, x.embeddingUpdates); err != nil {
			return err
		}
		for i, t := range transfers {
			learner, err := p.train(ctx, x, ways[1], t)
			if err != nil {
				return err
			}
			if p.transfers[i], err = learner.Encode(); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() (err error) {
		p.paper, err = p.train(ctx, x, ways[0], transfers[0])
		return err
	})
	group.Go(func() (err error) {
		p.band, err = p.train(ctx, x, ways[2], transfers[0])
		return err
	})
	return nil
}

// train trains one learner on all applications in turn.
func (p *pooled) train(ctx context.Context, x *experiments, w way, t transfer) (*rl.DDPG, error) {
	learner, err := rl.New(w.config(t.size, poolSeed))
	if err != nil {
		return nil, err
	}
	for k := range x.poolEpisodes {
		a := p.apps[k%len(p.apps)]
		constants, err := t.constants(ctx, p, a)
		if err != nil {
			return nil, err
		}
		target := a.scenario.App.Target
		student := &ddpg.Student{Target: target, Learner: learner, Reward: w.reward, Constants: constants}
		if w.bootstrap {
			student.Rules, student.Watch = agents.NewPair(target), k < x.poolWatch
		}
		if _, err := a.run(ctx, k, student); err != nil {
			return nil, err
		}
		if err := student.End(); err != nil {
			return nil, err
		}
		x.step()
	}
	return learner, nil
}

// write saves the general networks in the folder of the runs, for `sigma mpa simulate`.
func (p *pooled) write(folder string) (paths []string, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	promise, err := rl.Decode("promise", p.transfers[0])
	if err != nil {
		return nil, err
	}
	for _, n := range []struct {
		name    string
		learner *rl.DDPG
	}{{"paper", p.paper}, {"promise", promise}, {"bootstrapped", p.band}} {
		data, err := n.learner.Actor().Encode()
		if err != nil {
			return nil, err
		}
		path := filepath.Join(folder, "ddpg-"+n.name+".json")
		if err := records.Replace(path, string(data)); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// watched runs an episode under rules, and returns what a student saw of it.
func (a *application) watched(ctx context.Context, k int) ([]rl.Transition, error) {
	learner, err := rl.New(ddpg.Tuned(0, 1))
	if err != nil {
		return nil, err
	}
	var list []rl.Transition
	target := a.scenario.App.Target
	student := &ddpg.Student{
		Target: target, Learner: learner, Reward: ddpg.Promise, Rules: agents.NewPair(target), Watch: true,
		Seen: func(t *rl.Transition) { list = append(list, *t) },
	}
	if _, err := a.run(ctx, k, student); err != nil {
		return nil, err
	}
	return list, student.End()
}

// loadFeatures are what TL+ knows: the logarithm of the mean rate for each core at the
// start, and the rate's coefficient of variation in an episode.
func (a *application) loadFeatures() ([]float32, error) {
	cfg, err := a.episode(0)
	if err != nil {
		return nil, err
	}
	var sum, squares float64
	for _, r := range cfg.Load.PerSec {
		sum, squares = sum+r, squares+r*r
	}
	n := float64(len(cfg.Load.PerSec))
	mean := sum / n
	cores := float64(a.scenario.App.Replicas) * float64(a.scenario.App.Request.CPU) / 1000
	return []float32{float32(math.Log(mean / cores)), float32(math.Sqrt(max(0, squares/n-mean*mean)) / mean)}, nil
}

// clone returns a learner that goes on from a whole training.
func clone(data []byte) (*rl.DDPG, error) { return rl.Decode("pool", data) }

// network is what a learner knows, as an agent for an application.
func network(l *rl.DDPG, a *application, constants []float32) mpa.Agent {
	return ddpg.New(a.scenario.App.Target, l.Actor().Clone(), constants...)
}

// An embedder is a GRU over (state, action, reward), trained on the pool to tell the next
// state, so that what it remembers is what an application is like.
type embedder struct {
	gru  *nn.GRU[float32]
	pass *nn.GRUPass[float32]
	x    nn.Matrix[float32]
}

const (
	embeddingSize   = 8
	embeddingInputs = ddpg.StateSize + ddpg.ActionSize + 1
	embeddingSteps  = 60 // half an hour
	embeddingBatch  = 16
	embeddingStream = 0xe3b
)

func fill(row []float32, t *rl.Transition) {
	n := copy(row, t.State)
	n += copy(row[n:], t.Action)
	row[n] = max(-3, min(3, t.Reward))
}

// memoryAt returns what the network remembers at the end of a part of an episode.
func (e *embedder) memoryAt(list []rl.Transition) []float32 {
	for i := range embeddingSteps {
		fill(e.x.Row(i), &list[i])
	}
	return append([]float32(nil), e.pass.Forward(e.x).Row(embeddingSteps-1)...)
}

// embed returns the mean memory over the parts of an episode.
func (e *embedder) embed(list []rl.Transition) ([]float32, error) {
	if len(list) < embeddingSteps {
		return nil, fmt.Errorf("an episode of %d steps, want %d for an embedding", len(list), embeddingSteps)
	}
	out := make([]float32, embeddingSize)
	parts := len(list) / embeddingSteps
	for i := range parts {
		for j, v := range e.memoryAt(list[i*embeddingSteps:]) {
			out[j] += v / float32(parts)
		}
	}
	return out, nil
}

func embeddingOf(ctx context.Context, p *pooled, a *application) ([]float32, error) {
	if a.embedding == nil {
		list, err := a.watched(ctx, 0)
		if err != nil {
			return nil, err
		}
		if a.embedding, err = p.embedder.embed(list); err != nil {
			return nil, err
		}
	}
	return a.embedding, nil
}
