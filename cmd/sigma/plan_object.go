package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// planObjectFlags are those of the object that a plan is written to.
type planObjectFlags struct{ path, deadline string }

func (f *planObjectFlags) check(repack bool) error {
	if f.path == "" {
		return nil
	}
	if repack {
		return usagef("--object and --repack: an object moves no pods that stand")
	}
	if _, err := time.Parse(time.RFC3339, f.deadline); err != nil {
		return usagef("--deadline %s: want a time like 2026-05-04T08:00:00Z", f.deadline)
	}
	if problems := validation.IsDNS1123Subdomain(f.name()); len(problems) > 0 {
		return usagef("--object %s: the file's name is that of the object: %s", f.path, problems[0])
	}
	return regular("object", f.path)
}

// name is that of the object.
func (f *planObjectFlags) name() string {
	return strings.TrimSuffix(filepath.Base(f.path), filepath.Ext(f.path))
}

// write writes the placements of a plan as a PlacementPlan.
func (f *planObjectFlags) write(t *trace.Trace, placements []trace.Placement) error {
	deadline, _ := time.Parse(time.RFC3339, f.deadline) // was checked
	text, err := snapshot.PlanObject(t, placements, f.name(), deadline)
	if err != nil {
		return fmt.Errorf("--object: trace %s: %w", t.Name, err)
	}
	return durable.WriteFile(f.path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
