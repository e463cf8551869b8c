package aware

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/learned"
)

// A Config says where results go.
type Config struct {
	Docs, Out string // folders of documents, and of the trained networks
	Workers   int    // applications at the same time
	Version   string // what is measured
	Progress  io.Writer
}

// PageName is the page below the folder of documents.
const PageName = "aware-records.md"

const command = "make aware-records"

// A size says how much is measured.
type size struct {
	bootApps, episodes, retraining, served   int // of bootstrapping and retraining
	poolApps, poolEpisodes, poolWatch        int // episodes of a learner, over all applications in turn
	unseenApps, adaptEpisodes, adaptEvery    int
	evaluations, embeddingUpdates, scenarios int
	hours                                    float64  // of an episode
	limits                                   []string // agents that show what more could be had
}

// full is the size of the page.
var full = size{
	bootApps: 5, episodes: 100, retraining: 30, served: 10, poolApps: 10, poolEpisodes: 120, poolWatch: 40,
	unseenApps: 5, adaptEpisodes: 50, adaptEvery: 5, evaluations: 4, embeddingUpdates: 400, scenarios: 24,
	hours: 1.5, limits: []string{"foresight", "oracle"},
}

// blocks are the episodes of a row of the first table: from, to.
func (s *size) blocks() [][2]int {
	third := s.episodes * 3 / 10
	return [][2]int{{0, third}, {third, 2 * third}, {2 * third, s.episodes}}
}

// total is how often step is called.
func (s *size) total() int {
	return s.bootApps*len(ways)*s.episodes + (len(transfers)+2)*s.poolEpisodes + s.unseenApps*(len(transfers)+1)*s.adaptEpisodes
}

// experiments are all measurements. Each has its own seeds, so that their order does not
// matter.
type experiments struct {
	size
	cfg    Config
	policy *learned.Policy

	boots   []*boot
	test    *scaling.Comparison
	pooled  *pooled
	adapted []*adapted

	mu   sync.Mutex
	done int
}

// step counts a unit of work, and shows it on a terminal.
func (x *experiments) step() {
	if x.cfg.Progress == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done++
	fmt.Fprintf(x.cfg.Progress, "\r%d of %d episodes", x.done, x.total())
}

// rules are what acts where nothing is learned.
func (x *experiments) rules(a *application) mpa.Agent { return agents.NewPair(a.scenario.App.Target) }

// learned is the project's own agent for an application.
func (x *experiments) learned(a *application) mpa.Agent {
	return agents.NewLearned(a.scenario.App.Target, x.policy.Values)
}

// Run measures and replaces the page. Where it fails or is interrupted, the old one stays.
func Run(ctx context.Context, cfg Config) error {
	return (&experiments{size: full, cfg: cfg, policy: learned.General()}).run(ctx)
}

func (x *experiments) run(ctx context.Context) error {
	if err := x.measure(ctx); err != nil {
		return err
	}
	if x.cfg.Progress != nil {
		fmt.Fprintln(x.cfg.Progress)
	}
	return x.page().Save(filepath.Join(x.cfg.Docs, PageName))
}

func (x *experiments) measure(ctx context.Context) error {
	apps, err := x.applications(bootFirst, x.bootApps, false)
	if err != nil {
		return err
	}
	x.boots = make([]*boot, len(apps))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(max(1, x.cfg.Workers))
	for i, a := range apps {
		group.Go(func() (err error) {
			x.boots[i], err = x.boot(inner, a)
			return err
		})
	}
	if err := x.pool(inner, group); err != nil {
		return err
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := x.adapt(ctx); err != nil {
		return err
	}
	return x.judge(ctx)
}

const about = `AWARE (Qiu et al., USENIX ATC 2023) bootstraps a DDPG agent on rules, retrains it when its reward falls, and adapts it to new applications by a meta-learner. These are its
questions in shape, on [the project's simulator](mpa-validation.md): the article's figure stands beside ours, which says whether an effect is there, not whether its size is the same. The agent and its rewards:
[AWARE's agent](mpa-learned.md#awares-agent-to-compare-with). All training uses the train side. Networks have one seed an application.`

func (x *experiments) page() *records.Page {
	p := records.NewPage("AWARE's claims, measured")
	p.Text(about)
	x.bootPage(p)
	x.adaptPage(p)
	x.judgePage(p)
	p.Text(fmt.Sprintf("`%s`, %s.", command, x.cfg.Version))
	return p
}
