package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/revision"
)

var pilots = v1alpha1.SchemeGroupVersion.WithResource("policypilots")

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

const (
	pilotsName = "policypilots.sigma-scheduler.io"
	awaiting   = "AwaitingApproval" // the phase in which a pilot waits for a person
)

// PilotCommand looks at a PolicyPilot, and lets its candidate in.
func (s Shell) PilotCommand(group func(*cobra.Command)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pilot",
		Short: "Look at a cluster's PolicyPilot, and approve its candidate",
		Long: `A PolicyPilot renews a PlacementPolicy: sigma-pilot trains on what the scheduler recorded, judges,
promotes in steps, watches and goes back (docs/pilot.md). With approval Manual a candidate waits
for "sigma pilot approve".`,
		Example: "  sigma pilot status general\n  sigma pilot approve general\n  sigma pilot report general --out report.html",
	}
	group(cmd)
	var approve, status, report flags
	yes := s.command(&approve, &cobra.Command{
		Use:   "approve NAME",
		Short: "Let the candidate of a pilot begin its rollout",
		Long: `Approve writes the digest of the candidate to the annotation sigma-scheduler.io/approved of the
PolicyPilot. It refuses a pilot that waits for no approval. A candidate that comes later has another
digest and waits again. The account needs the verbs get and patch on policypilots.`,
		Example: "  sigma pilot approve general\n  sigma pilot approve general --dry-run",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, c *Cluster, args []string) error {
		digest, err := c.Approve(ctx, args[0], approve.dryRun)
		if err != nil {
			return err
		}
		text := "sigma-pilot begins the rollout within seconds: sigma pilot status " + args[0]
		if approve.dryRun {
			text = "not written: the API server accepts it (--dry-run)"
		}
		_, err = fmt.Fprintf(s.Out, "%s: %s approved\n%s\n", args[0], digest, text)
		return err
	})
	yes.Flags().BoolVar(&approve.dryRun, "dry-run", false, "let the API server check the change, and write nothing")
	where := s.command(&status, &cobra.Command{
		Use:     "status NAME",
		Short:   "Say where a pilot is, and why",
		Long:    "Status prints the phase of a PolicyPilot, its policies by digest, the savings promised and realised, and the reasons. The account needs the verb get on policypilots.",
		Example: "  sigma pilot status general --format json",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, c *Cluster, args []string) error {
		p, err := c.Pilot(ctx, args[0])
		if err != nil {
			return err
		}
		return writePilot(s.Out, p, status.format == "json")
	})
	where.Flags().StringVar(&status.format, "format", "table", "table or json")
	var out string
	page := s.command(&report, &cobra.Command{
		Use:   "report NAME",
		Short: "Write the page of a pilot: costs over the weeks, promises and what came",
		Long: `Report writes the page of a PolicyPilot: what the nodes in use cost day by day, what they would have
cost without a policy and at least, what the loop decided, and what it promised against what came.
sigma-pilot keeps the page in the ConfigMap sigma-pilot-NAME of its namespace. The account needs the
verb get on it.`,
		Example: "  sigma pilot report general --out report.html",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, c *Cluster, args []string) error {
		text, err := c.PilotReport(ctx, args[0])
		if err != nil {
			return err
		}
		if out == "" {
			_, err = io.WriteString(s.Out, text)
			return err
		}
		if err := durable.WriteFile(out, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.Out, "%s written\n", out)
		return err
	})
	page.Flags().StringVar(&out, "out", "", "HTML file to write; empty: standard output")
	page.Flags().StringVarP(&report.namespace, "namespace", "n", revision.DefaultNamespace, "namespace of sigma-pilot")
	cmd.AddCommand(yes, where, page)
	return cmd
}

// PilotReport reads the page of a pilot.
func (c *Cluster) PilotReport(ctx context.Context, name string) (string, error) {
	file := v1alpha1.PilotReport(name)
	u, err := c.Client.Resource(configMaps).Namespace(c.Namespace).Get(ctx, file, metav1.GetOptions{})
	next := fmt.Sprintf("sigma pilot status %s", name)
	if apierrors.IsNotFound(err) {
		return "", &Refusal{Reason: fmt.Sprintf("there is no ConfigMap %s in %s: sigma-pilot writes it with its first step", file, c.Namespace), Next: next, err: err}
	}
	if err != nil {
		return "", c.explain("get", "configmaps", c.Namespace, err)
	}
	text, _, err := unstructured.NestedString(u.Object, "data", v1alpha1.PilotReportKey)
	if err != nil || text == "" {
		return "", &Refusal{Reason: fmt.Sprintf("the ConfigMap %s in %s has no %s", file, c.Namespace, v1alpha1.PilotReportKey), Next: next, err: err}
	}
	return text, nil
}

// Pilot reads a PolicyPilot.
func (c *Cluster) Pilot(ctx context.Context, name string) (*v1alpha1.PolicyPilot, error) {
	u, err := c.Client.Resource(pilots).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, c.noPilot(ctx, name, err)
	}
	if err != nil {
		return nil, c.explain("get", pilotsName, "", err)
	}
	p := &v1alpha1.PolicyPilot{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p); err != nil {
		return nil, fmt.Errorf("PolicyPilot %s: %w", name, err)
	}
	return p, nil
}

// noPilot returns an error that names the existing pilots.
func (c *Cluster) noPilot(ctx context.Context, name string, err error) error {
	list, errList := c.Client.Resource(pilots).List(ctx, metav1.ListOptions{})
	if errList != nil || len(list.Items) == 0 {
		return &Refusal{Reason: "there is no PolicyPilot " + name, Next: "kubectl get policypilots", err: errors.Join(err, errList)}
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	slices.Sort(names)
	return &Refusal{Reason: fmt.Sprintf("there is no PolicyPilot %s; there are %s", name, strings.Join(names, ", ")), Next: "sigma pilot status " + names[0], err: err}
}

// Approve lets the candidate of a pilot in, and returns its digest. It is the one that the first read
// shows: if another takes its place before the write, nothing is written.
func (c *Cluster) Approve(ctx context.Context, name string, dryRun bool) (string, error) {
	p, err := c.Pilot(ctx, name)
	if err != nil {
		return "", err
	}
	candidate := p.Status.Candidate
	switch {
	case p.Status.Phase != awaiting || candidate == "":
		return "", refuse("sigma pilot status "+name, "%s waits for no approval: its phase is %q", name, p.Status.Phase)
	case p.Spec.Approval == v1alpha1.PilotRecommend:
		return "", refuse("kubectl edit policypilot "+name, "%s has approval Recommend: it writes no policy", name)
	}
	options := metav1.PatchOptions{FieldManager: "sigma-pilot-approve"}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	for range statusTries {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": p.ResourceVersion, "annotations": map[string]string{v1alpha1.ApprovedAnnotation: candidate},
		}})
		if err != nil {
			return "", err
		}
		_, err = c.Client.Resource(pilots).Patch(ctx, name, types.MergePatchType, patch, options)
		if err == nil {
			return candidate, nil
		}
		if !apierrors.IsConflict(err) {
			return "", c.explain("patch", pilotsName, "", err)
		}
		// sigma-pilot writes the status at any time. As long as the same candidate waits, nobody has decided.
		fresh, err := c.Pilot(ctx, name)
		if err != nil {
			return "", err
		}
		if fresh.UID != p.UID || fresh.Generation != p.Generation || !maps.Equal(fresh.Annotations, p.Annotations) ||
			fresh.Status.Phase != awaiting || fresh.Status.Candidate != candidate {
			break
		}
		p = fresh
	}
	return "", refuse("sigma pilot status "+name, "%s changed since this command read it; nothing is written", name)
}

// writePilot prints where a pilot is.
func writePilot(out io.Writer, p *v1alpha1.PolicyPilot, asJSON bool) error {
	st := &p.Status
	if asJSON {
		shown := *st.DeepCopy()
		shown.Memory = nil
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"pilot": p.Name, "policy": p.Spec.Policy, "approval": p.Spec.Approval, "status": shown})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	row("pilot", p.Name)
	row("policy", p.Spec.Policy)
	row("approval", string(p.Spec.Approval))
	row("phase", st.Phase)
	if st.Since != nil {
		row("since", st.Since.UTC().Format("2006-01-02 15:04:05"))
	}
	row("step", st.Step)
	row("in force", st.InForce)
	row("candidate", st.Candidate)
	row("last good", st.LastGood)
	for _, s := range []struct {
		name string
		is   *v1alpha1.PilotSaving
	}{{"promised", st.Promised}, {"realised", st.Realised}} {
		if s.is != nil {
			row(s.name, s.is.Text)
		}
	}
	for _, c := range st.Conditions {
		if c.Status == metav1.ConditionFalse {
			row("not "+strings.ToLower(c.Type), c.Message)
		}
	}
	for _, r := range st.Reasons {
		row("because", r)
	}
	return w.Flush()
}
