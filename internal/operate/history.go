package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sigma-scheduler/sigma/plugins/revision"
)

// A Row is one revision of a policy.
type Row struct {
	Revision       int64     `json:"revision"`
	Mode           string    `json:"mode"`
	Digest         string    `json:"digest"`
	TakenUp        time.Time `json:"takenUp"`
	Provenance     string    `json:"provenance,omitempty"`
	Saving         string    `json:"saving,omitempty"` // as the training measured it
	RolledBackFrom bool      `json:"rolledBackFrom,omitempty"`
}

// A History lists the revisions of a policy, oldest first.
type History struct {
	Policy    string `json:"policy"`
	Revisions []Row  `json:"revisions"`
}

// History reads the revisions of a policy.
func (c *Cluster) History(ctx context.Context, name string) (*History, error) {
	o, _, err := c.policy(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := c.revisions(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, refuse("sigma doctor", "%s has no history in namespace %s: no scheduler has taken it up there", name, c.Namespace)
	}
	h := &History{Policy: name}
	bad := strings.Split(o.GetAnnotations()[rolledBack], ",")
	for i := range list {
		r := &list[i]
		from, saving := origin(r.Spec)
		h.Revisions = append(h.Revisions, Row{
			Revision: r.Number, Mode: r.Mode(), Digest: r.Digest, TakenUp: r.At.UTC(),
			Provenance: from, Saving: saving, RolledBackFrom: slices.Contains(bad, r.Digest),
		})
	}
	return h, nil
}

func (c *Cluster) revisions(ctx context.Context, o *unstructured.Unstructured) ([]revision.Revision, error) {
	list, err := revision.List(ctx, c.Client, c.Namespace, o.GetUID())
	return list, c.explain("list", "controllerrevisions.apps", c.Namespace, err)
}

// origin returns the origin of a policy's numbers, and their saving when they were chosen; "" if
// the policy has neither.
func origin(spec map[string]any) (from, saving string) {
	text := func(path ...string) string {
		s, _, _ := unstructured.NestedString(spec, path...)
		return s
	}
	number := func(path ...string) (float64, bool) {
		v, _, _ := unstructured.NestedFieldNoCopy(spec, path...)
		switch n := v.(type) {
		case int64:
			return float64(n), true
		case float64:
			return n, true
		}
		return 0, false
	}
	if mean, ok := number("provenance", "tune", "savingPercent", "mean"); ok {
		low, _ := number("provenance", "tune", "savingPercent", "low")
		high, _ := number("provenance", "tune", "savingPercent", "high")
		saving = fmt.Sprintf("%.1f %% (%.1f to %.1f)", mean, low, high)
		if against := text("provenance", "tune", "against"); against != "" {
			saving += " against " + against
		}
	}
	switch model := text("model"); {
	case text("provenance", "tune", "chosen") != "":
		from = "tune: " + text("provenance", "tune", "chosen")
	case text("provenance", "optimizer") != "":
		from = "train: " + text("provenance", "optimizer")
		if n, ok := number("provenance", "evaluations"); ok {
			from += fmt.Sprintf(", %.0f evaluations", n)
		}
	case model == "shipped":
		from = "shipped with Sigma"
	case model == "rule":
		from = strings.TrimSpace("rule " + text("rule", "name"))
	}
	return from, saving
}

// Write writes a history as a table, or as JSON.
func (h *History) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(h)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REVISION\tMODE\tDIGEST\tTAKEN UP\tPROVENANCE\tSAVING")
	for _, r := range h.Revisions {
		digest := r.Digest[:min(len(r.Digest), len("sha256:")+12)]
		if r.RolledBackFrom {
			digest += " (rolled back from)"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", r.Revision, r.Mode, digest, r.TakenUp.Format(time.DateTime), cmp.Or(r.Provenance, "–"), cmp.Or(r.Saving, "–"))
	}
	return t.Flush()
}
