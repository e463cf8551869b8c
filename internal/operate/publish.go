package operate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/plugins/revision"
)

var configMaps = v1.SchemeGroupVersion.WithResource("configmaps")

const (
	packed = ".gz"
	// mostPublished is the capacity of a ConfigMap, less some room for its description; mostFetched is the largest size
	// to which a file of it unpacks.
	mostPublished = 1<<20 - 64<<10
	mostFetched   = 256 << 20
)

// PageCommands bring pages from where they are made to a ConfigMap, and from there to people.
func (s Shell) PageCommands() []*cobra.Command {
	var to, from flags
	var optional []string
	var out string
	namespace := func(cmd *cobra.Command, f *flags) {
		cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "sigma-loop", "namespace of the ConfigMap")
	}
	publish := s.command(&to, &cobra.Command{
		Use:   "publish NAME FILE...",
		Short: "Put files into a ConfigMap, packed, in place of those that it holds",
		Long: `Publish is for Jobs whose volume nobody can look into: "sigma report fetch" reads the files again.
The ConfigMap has to be there. The account needs the verb patch on it, and no other.`,
		Example: "  sigma report publish -n sigma-loop verdict verdict.html --optional policy.yaml",
		Args:    cobra.MinimumNArgs(2),
	}, func(ctx context.Context, c *Cluster, args []string) error {
		names, err := c.Publish(ctx, args[0], args[1:], optional)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.Out, "%s/%s: %s\n", c.Namespace, args[0], strings.Join(names, ", "))
		return err
	})
	namespace(publish, &to)
	publish.Flags().StringSliceVar(&optional, "optional", nil, "file to publish too if it is there (repeatable)")
	fetch := s.command(&from, &cobra.Command{
		Use:     "fetch NAME --out DIR",
		Short:   "Read the files that publish has put into a ConfigMap",
		Example: "  sigma report fetch -n sigma-loop verdict --out verdict",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, c *Cluster, args []string) error {
		if out == "" {
			return s.Usage("--out is missing")
		}
		names, err := c.Fetch(ctx, args[0], out)
		if err != nil {
			return err
		}
		for _, name := range names {
			fmt.Fprintln(s.Out, filepath.Join(out, name))
		}
		return nil
	})
	namespace(fetch, &from)
	fetch.Flags().StringVar(&out, "out", "", "folder to write to")
	return []*cobra.Command{publish, fetch}
}

// Publish puts files into a ConfigMap, in place of all that it holds; of the optional ones those that are there. It
// returns their names.
func (c *Cluster) Publish(ctx context.Context, name string, files, optional []string) (names []string, err error) {
	all, size := map[string][]byte{}, 0
	for i, file := range slices.Concat(files, optional) {
		text, err := os.ReadFile(file)
		if i >= len(files) && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		base := filepath.Base(file)
		if slices.Contains(names, base) {
			return nil, fmt.Errorf("%s: there are two files of the name %s", file, base)
		}
		var b bytes.Buffer
		zipped := gzip.NewWriter(&b)
		_, err = zipped.Write(text)
		if err := errors.Join(err, zipped.Close()); err != nil {
			return nil, err
		}
		names, all[base+packed], size = append(names, base), b.Bytes(), size+b.Len()
	}
	if size > mostPublished {
		return nil, fmt.Errorf("%s: %d bytes packed, and a ConfigMap holds %d", strings.Join(names, ", "), size, mostPublished)
	}
	// The whole of it is replaced: files left out now are of an earlier time.
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/binaryData", "value": all}})
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: "sigma-publish"}
	_, err = c.Client.Resource(configMaps).Namespace(c.Namespace).Patch(ctx, name, types.JSONPatchType, patch, options)
	if apierrors.IsNotFound(err) {
		return nil, refuse(fmt.Sprintf("kubectl create configmap -n %s %s", c.Namespace, name), "there is no ConfigMap %s in namespace %s", name, c.Namespace)
	}
	return names, c.explain("patch", "configmaps", c.Namespace, err)
}

// Fetch writes the files of a ConfigMap to a folder, and returns their names.
func (c *Cluster) Fetch(ctx context.Context, name, dir string) (names []string, err error) {
	o, err := c.Client.Resource(configMaps).Namespace(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, refuse("kubectl get configmaps -n "+c.Namespace, "there is no ConfigMap %s in namespace %s", name, c.Namespace)
	}
	if err != nil {
		return nil, c.explain("get", "configmaps", c.Namespace, err)
	}
	var held v1.ConfigMap
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &held); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", c.Namespace, name, err)
	}
	if len(held.BinaryData) == 0 {
		return nil, refuse("kubectl get jobs -n "+c.Namespace, "%s/%s holds nothing yet", c.Namespace, name)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(held.BinaryData)) {
		base, ok := strings.CutSuffix(key, packed)
		if !ok || base != filepath.Base(base) {
			return nil, fmt.Errorf("%s/%s: %s: want the name of a file that ends in %s", c.Namespace, name, key, packed)
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(held.BinaryData[key]))
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %s: %w", c.Namespace, name, key, err)
		}
		text, err := io.ReadAll(io.LimitReader(unzipped, mostFetched+1))
		if err == nil && len(text) > mostFetched {
			err = fmt.Errorf("more than %d bytes", mostFetched)
		}
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %s: %w", c.Namespace, name, key, err)
		}
		err = durable.WriteFile(filepath.Join(dir, base), func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
		if err != nil {
			return nil, err
		}
		names = append(names, base)
	}
	return names, nil
}

// numbers are the fields of a PlacementPolicy that a file gives it; the others, such as repair and soft, stay.
var numbers = []string{"featureVersion", "model", "knowledge", "features", "weights", "parameters", "rule", "provenance"}

// Apply gives a PlacementPolicy the numbers of a file, in shadow. One that decides on pods it takes from them only with
// demote, and one of a pilot not at all.
func (c *Cluster) Apply(ctx context.Context, name, file string, demote, dryRun bool) (*Change, error) {
	p, err := policy.Load(file)
	if err != nil {
		return nil, err
	}
	text, err := yaml.YAMLToJSON(p.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	o.SetName(name)
	spec, _ := o.Object["spec"].(map[string]any) // a policy that was read has one
	spec["mode"] = "shadow"
	delete(spec, "canaryPercent")
	change := Change{Policy: name, From: "none", To: "shadow", Digest: p.Digest(), DryRun: dryRun}
	now, err := c.Client.Resource(policies).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		options := metav1.CreateOptions{FieldManager: "sigma-policy"}
		if dryRun {
			options.DryRun = []string{metav1.DryRunAll}
		}
		_, err := c.Client.Resource(policies).Create(ctx, o, options)
		switch {
		case err == nil:
			return &change, nil
		case apierrors.IsNotFound(err):
			return nil, &Refusal{Reason: "the cluster has no PlacementPolicies: Sigma is not installed", Next: "sigma doctor", err: err}
		}
		return nil, c.explain("create", policiesName, "", err)
	case err != nil:
		return nil, c.explain("get", policiesName, "", err)
	}
	present, _ := now.Object["spec"].(map[string]any)
	change.From = revision.Mode(present)
	if !demote && modeOf(present) != "shadow" {
		return nil, refuse("the same with --demote, or with another name", "%s decides (%s): it is not replaced", name, change.From)
	}
	if pilot, _, _ := unstructured.NestedString(present, "provenance", "pilot"); pilot != "" {
		return nil, refuse("another --name, or kubectl delete policypilot "+pilot, "%s is of the PolicyPilot %s", name, pilot)
	}
	next := runtime.DeepCopyJSON(present)
	for _, field := range numbers {
		delete(next, field)
		if v, ok := spec[field]; ok {
			next[field] = v
		}
	}
	next["mode"] = "shadow"
	return c.change(ctx, now, next, change)
}
