package aware

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/records"
	"github.com/sigma-scheduler/sigma/internal/scaling"
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

// experiments are all measurements. Each has its own seeds, so that their order does not
// matter.
type experiments struct {
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
	fmt.Fprintf(x.cfg.Progress, "\r%d of %d episodes", x.done, total)
}

// total is how often step is called.
const total = bootApps*3*episodes + 5*poolEpisodes + unseenApps*4*adaptEpisodes

// rules are what acts where nothing is learned.
func (x *experiments) rules(a *application) mpa.Agent { return agents.NewPair(a.scenario.App.Target) }

// learned is the project's own agent for an application.
func (x *experiments) learned(a *application) mpa.Agent {
	return agents.NewLearned(a.scenario.App.Target, x.policy.Values)
}

// Run measures and replaces the page. Where it fails or is interrupted, the old one stays.
func Run(ctx context.Context, cfg Config) error {
	x := &experiments{cfg: cfg, policy: learned.General()}
	if err := x.measure(ctx); err != nil {
		return err
	}
	if cfg.Progress != nil {
		fmt.Fprintln(cfg.Progress)
	}
	return x.page().Save(filepath.Join(cfg.Docs, PageName))
}

func (x *experiments) measure(ctx context.Context) error {
	apps, err := applications(bootFirst, bootApps, false)
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
