package cli

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/plugins/manifest"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// planSite holds the inputs of a plan in addition to a trace, and the object that it is
// written to.
type planSite struct {
	manifests []string
	manifest.Options
	object snapshot.PlanFile
	count  *manifest.Count // of the manifests' objects; nil = there are no manifests
}

// A siteReport is that of a plan with manifests.
type siteReport struct {
	compare.PlanReport
	Manifests *manifest.Count `json:"manifests"`
}

func (f *planSite) check(repack bool) error {
	switch {
	case f.object.Path == "":
		return nil
	case repack:
		return usagef("--object and --repack: an object moves no pods that stand")
	}
	if err := f.object.Check(); err != nil {
		return &usageError{err}
	}
	return regular("object", f.object.Path)
}

// addManifests adds to a trace the future pods of the manifests.
func (a *app) addManifests(traces []*trace.Trace, f *planSite) error {
	if len(f.manifests) == 0 {
		return nil
	}
	t, count, notes, err := manifest.Add(traces[0], f.manifests, f.Options)
	traces[0], f.count = t, &count
	for _, note := range notes {
		fmt.Fprintln(a.stderr, note)
	}
	return err
}
