// Package retrain trains a ScalingPolicy on the journal of one workload, and creates it in the
// cluster if it is better on the journal than the one that serves. A recommender's Job runs
// it.
package retrain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/retraining"
)

// options of a training for one object.
type options struct {
	training scaling.Training // the budget
	journals string           // the recommender's folder
	// object is namespace/name, uid its UID, policy the name in its spec.
	object, uid, policy string
	result, kubeconfig  string // files; empty = no file
}

// Command returns the command of sigma mpa, which prints to out; do wraps its run function.
func Command(out io.Writer, do func(func(*cobra.Command, []string) error) func(*cobra.Command, []string) error) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "retrain --journals DIR --object NAMESPACE/NAME --uid UID --policy NAME",
		Short: "Train a ScalingPolicy on the journal of one workload, in a recommender's Job",
		Long: `Retrain is what a recommender's Job runs after the workload has changed. It searches from the
policy that serves, which $` + retraining.ServingVariable + ` has, on the journal's pieces and on generated scenarios.
What is better on the last pieces becomes a new ScalingPolicy of the cluster, named after the
old one and its own digest. Nothing that is there is changed.`,
		Example: `  sigma mpa retrain --journals /var/lib/sigma-mpa --object shop/web --uid 5d3c… --policy general`,
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return o.check() },
	}
	cmd.RunE = do(func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), out) })
	o.addFlags(cmd.Flags())
	return cmd
}

// addFlags adds the flags of all options, with their defaults.
func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.journals, "journals", "", "the recommender's --journal-dir")
	flags.StringVar(&o.object, "object", "", "namespace/name of the MultidimPodAutoscaler")
	flags.StringVar(&o.uid, "uid", "", "its UID, which is in the names of its journal's files")
	flags.StringVar(&o.policy, "policy", "", "ScalingPolicy in its spec: the new one is called POLICY-DIGEST")
	flags.StringVar(&o.result, "result", "", "file for the result as JSON, such as /dev/termination-log; empty: none")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	t := &o.training
	t.Method, t.Seed = scaling.Methods()[0], 1
	flags.IntVar(&t.Scenarios, "scenarios", 40, "generated scenarios beside the journal's pieces, those for validation included")
	flags.Uint64Var(&t.First, "first", 1, "seed of the first scenario")
	flags.IntVar(&t.Evaluations, "evaluations", 96, "budget: sets of numbers to evaluate")
	flags.IntVar(&t.Particles, "particles", scaling.DefaultParticles, "sets of numbers in a generation")
	flags.Uint64Var(&t.Seed, "seed", 1, "of the search")
	flags.IntVar(&t.Workers, "workers", runtime.GOMAXPROCS(0), "evaluations at the same time")
}

// check reports the first option that is wrong.
func (o *options) check() error {
	namespace, name, _ := strings.Cut(o.object, "/")
	switch {
	case o.journals == "":
		return errors.New("--journals is empty")
	case namespace == "" || name == "" || strings.ContainsAny(name+namespace+o.uid, `/\`):
		return fmt.Errorf("--object %q, --uid %q: want NAMESPACE/NAME and its UID", o.object, o.uid)
	case o.uid == "":
		return errors.New("--uid is empty")
	case o.policy == "":
		return errors.New("--policy is empty")
	}
	return o.training.Check()
}

// run trains from the policy in [retraining.ServingVariable], creates the policy found where it
// is better and writes the result.
func (o *options) run(ctx context.Context, out io.Writer) error {
	serving, err := learned.Parse("$"+retraining.ServingVariable, []byte(os.Getenv(retraining.ServingVariable)))
	if err != nil {
		return err
	}
	o.training.From = serving
	o.training.Journals = filepath.Join(o.journals, filepath.FromSlash(o.object)+"."+o.uid+".jsonl")
	found, err := o.training.Run(ctx)
	if err != nil {
		return err
	}
	own := found.Own
	result := retraining.Result{
		Pieces: len(own.Pair.Runs), FoundCost: own.Found.Ratio, FoundKept: own.Found.Kept, ServesCost: own.Serves.Ratio, ServesKept: own.Serves.Kept,
	}
	if own.Better() {
		p := found.Policy
		from := &p.Provenance
		from.Journal, from.Replaces, from.Module = own.Journal, serving.Digest, program()
		from.Pieces, from.PiecesCost, from.ReplacesCost = result.Pieces, own.Found.Ratio, own.Serves.Ratio
		if result.Policy, result.Digest, err = o.create(ctx, p); err != nil {
			return err
		}
	}
	text, err := json.Marshal(&result)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n", text); err != nil || o.result == "" {
		return err
	}
	return os.WriteFile(o.result, text, 0o600)
}

// mostName is the length of a policy's name that the name of its successor keeps at most.
const mostName = 200

// create makes the ScalingPolicy, under a name with its digest. One that is there already is the
// same.
func (o *options) create(ctx context.Context, p *learned.Policy) (name, digest string, err error) {
	p.Name = o.policy
	data, err := p.Marshal()
	if err != nil {
		return "", "", err
	}
	same, err := learned.Parse(p.Name, data)
	if err != nil {
		return "", "", err
	}
	p.Name = fmt.Sprintf("%s-%.8s", o.policy[:min(mostName, len(o.policy))], strings.TrimPrefix(same.Digest, "sha256:"))
	if data, err = p.Marshal(); err != nil {
		return "", "", err
	}
	if same, err = learned.Parse(p.Name, data); err != nil {
		return "", "", err
	}
	object := &v1alpha1.ScalingPolicy{}
	if err := yaml.UnmarshalStrict(data, object); err != nil {
		return "", "", err
	}
	object.Labels = map[string]string{retraining.Label: "true"}
	object.Annotations = map[string]string{retraining.ObjectAnnotation: o.object}
	content, err := kuberuntime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", "", err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return "", "", err
	}
	cluster, err := dynamic.NewForConfig(config)
	if err != nil {
		return "", "", err
	}
	policies := cluster.Resource(v1alpha1.SchemeGroupVersion.WithResource("scalingpolicies"))
	again := func(err error) bool {
		return ctx.Err() == nil && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsAlreadyExists(err)
	}
	err = retry.OnError(patience, again, func() error {
		_, err := policies.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
		return err
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", "", fmt.Errorf("create ScalingPolicy %s: %w", p.Name, err)
	}
	return p.Name, same.Digest, nil
}

// patience is the backoff of a training, which took minutes itself, for the API server.
var patience = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 8}

// program returns version and commit of this program, as far as its build has them.
func program() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return cmp.Or(strings.TrimSpace(info.Main.Version+" "+commit), "unknown")
}
