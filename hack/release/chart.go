package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// static are the parts of the chart that are not in the manifests.
//
//go:embed all:chart
var static embed.FS

// resources and components are the content of the chart: the manifests as kustomize builds
// them.
var (
	resources  = []string{"manifests/base/crds", "manifests/mpa/crds", "manifests/overlays/second-scheduler", "manifests/mpa"}
	components = []string{
		"manifests/components/servicemonitor", "manifests/mpa/monitoring", "manifests/components/repair",
		"manifests/components/rebalance", "manifests/components/native-rules", "manifests/components/namespaces",
		"manifests/components/network-policy", "manifests/mpa/network-policy",
		"manifests/mpa/retraining", "manifests/mpa/limits", "manifests/mpa/knative",
	}
	// extras add objects like components; their changes of the scheduler are among the edits.
	extras = []string{"manifests/components/pilot"}
)

// object is one object of the manifests.
type object struct {
	*yaml.RNode
	component string // the last component that adds it, "" = no component
}

// manifests builds the kustomizations of a checkout.
func manifests(root string) ([]object, error) {
	var all []object
	known := map[string]bool{}
	components := slices.Concat(components, extras)
	for n := range len(components) + 1 {
		built, err := build(root, resources, components[:n])
		if err != nil {
			return nil, err
		}
		component := ""
		if n > 0 {
			component = filepath.Base(components[n-1])
		}
		for _, node := range built.ToRNodeSlice() {
			key := node.GetKind() + "/" + node.GetNamespace() + "/" + unhashed(node.GetName())
			if !known[key] {
				known[key] = true
				all = append(all, object{node, component})
			}
		}
	}
	return all, nil
}

// build is `kustomize build` of a kustomization with the given parts.
func build(root string, resources, components []string, images ...kustomize.Image) (resmap.ResMap, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "chart")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // kustomize needs paths relative to the real folder
		return nil, err
	}
	k := kustomize.Kustomization{TypeMeta: kustomize.TypeMeta{APIVersion: kustomize.KustomizationVersion, Kind: kustomize.KustomizationKind}, Images: images}
	for _, paths := range []struct {
		from []string
		to   *[]string
	}{{resources, &k.Resources}, {components, &k.Components}} {
		for _, p := range paths.from {
			rel, err := filepath.Rel(dir, filepath.Join(root, p))
			if err != nil {
				return nil, err
			}
			*paths.to = append(*paths.to, rel)
		}
	}
	content, err := yaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), content, 0o600); err != nil {
		return nil, err
	}
	return krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
}

// writeChart replaces the folder dir by a Helm chart of the manifests.
func writeChart(root, dir, version string) error {
	objects, err := manifests(root)
	if err != nil {
		return err
	}
	if err := replaceable(dir, "Chart.yaml", "a chart"); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := writeStatic(dir, version); err != nil {
		return err
	}
	policy, err := os.ReadFile(filepath.Join(root, "manifests/policy.yaml"))
	if err != nil {
		return err
	}
	node, err := yaml.Parse(string(policy))
	if err != nil {
		return fmt.Errorf("manifests/policy.yaml: %w", err)
	}
	used := map[*edit]bool{}
	for _, o := range append(objects, object{RNode: node}) {
		path, content, err := o.template(used)
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if content == nil {
			continue
		}
		path = filepath.Join(dir, path)
		if _, err := os.Stat(path); err == nil {
			return fmt.Errorf("%s %s: there is a %s already", o.GetKind(), o.GetName(), path)
		}
		if err := writeFile(path, content); err != nil {
			return err
		}
	}
	for i := range edits {
		if e := &edits[i]; !used[e] {
			return fmt.Errorf("no object has what the chart sets: %s %s %v", e.kind, e.name, e.path)
		}
	}
	return nil
}

// replaceable returns an error for a folder that holds something without the file that
// identifies its content.
func replaceable(dir, file, what string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil && len(entries) > 0 {
		return fmt.Errorf("%s holds something else than %s; want another folder", dir, what)
	}
	return nil
}

// chartVersion is a version in the form of Helm and krew: semantic, without v.
func chartVersion(version string) string {
	number := strings.TrimPrefix(version, "v")
	if regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(number) {
		return number
	}
	return "0.0.0-g" + regexp.MustCompile(`[^0-9A-Za-z-]+`).ReplaceAllString(number, "-") // a number with a leading zero is not semantic
}

func writeStatic(dir, version string) error {
	fill := strings.NewReplacer("@VERSION@", chartVersion(version), "@APP@", version)
	return fs.WalkDir(static, "chart", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := static.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("chart", path)
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(dir, rel), []byte(fill.Replace(string(content))))
	})
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644) //nolint:gosec // others read it
}

// template is an object as a file of the chart; its content is nil if the chart leaves it
// out.
func (o object) template(used map[*edit]bool) (path string, content []byte, err error) {
	name := strings.ToLower(o.GetKind()) + "-" + unhashed(o.GetName()) + ".yaml"
	if ns := o.GetNamespace(); ns != "" && ns != "sigma-system" && ns != "sigma-mpa" {
		name = ns + "-" + name
	}
	switch o.GetKind() {
	case "Namespace": // the user's namespace
		return "", nil, nil
	case "ResourceQuota": // of which one is enough in one namespace
		if o.GetNamespace() == "sigma-mpa" {
			return "", nil, nil
		}
	case "CustomResourceDefinition": // Helm creates these first and keeps them
		s, err := o.String()
		return filepath.Join("crds", name), []byte(s), err
	}
	var inserted []string
	node := o.Copy()
	place := func(expression string) string {
		inserted = append(inserted, expression)
		return "«" + strconv.Itoa(len(inserted)-1) + "»"
	}
	oneNamespace(node.YNode(), place)
	for i := range edits {
		e := &edits[i]
		if e.kind == o.GetKind() && e.name == unhashed(o.GetName()) {
			if err := e.apply(node, place); err != nil {
				return "", nil, err
			}
			used[e] = true
		}
	}
	s, err := node.String()
	if err != nil {
		return "", nil, err
	}
	s = strings.ReplaceAll(s, "{{", `{{ "{{" }}`)
	s = fill(s, inserted)
	if c := o.condition(); c != "" {
		s = "{{- if " + c + " }}\n" + s + "{{- end }}\n"
	}
	return filepath.Join("templates", name), []byte(s), nil
}

// unhashed is a name without the digest that kustomize appends to a configuration's.
func unhashed(name string) string {
	if strings.HasPrefix(name, config+"-") {
		return config
	}
	return name
}

// condition names the user's values that enable the object.
func (o object) condition() string {
	var c []string
	if strings.HasPrefix(o.GetName(), "sigma-mpa") {
		c = append(c, ".Values.mpa.enabled")
	}
	switch {
	case o.component == "retraining":
		c = append(c, ".Values.mpa.retraining.enabled")
		if o.GetKind() == "NetworkPolicy" {
			c = append(c, ".Values.networkPolicy.enabled")
		}
	case o.component == "limits" || o.component == "knative":
		c = append(c, ".Values.mpa."+o.component+".enabled")
	case o.component == "native-rules":
		c = append(c, ".Values.nativeRules.enabled")
	case o.component == "repair" || o.component == "rebalance" || o.component == "namespaces" || o.component == "pilot":
		c = append(c, ".Values."+o.component+".enabled")
	case o.GetKind() == "NetworkPolicy":
		c = append(c, ".Values.networkPolicy.enabled")
	case o.GetKind() == "ServiceMonitor" || o.GetKind() == "PrometheusRule":
		c = append(c, ".Values.monitoring.enabled")
	case strings.HasSuffix(o.GetName(), "-dashboard"):
		c = append(c, ".Values.dashboards.enabled")
	case o.GetKind() == "PlacementPolicy":
		c = append(c, ".Values.policy.create")
	}
	if len(c) < 2 {
		return strings.Join(c, "")
	}
	return "and " + strings.Join(c, " ")
}

// oneNamespace puts the release's namespace where an object has one of the manifests' two.
func oneNamespace(n *yaml.Node, place func(string) string) {
	for i := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "namespace" && n.Content[i].Kind == yaml.ScalarNode {
			if v := n.Content[i].Value; v == "sigma-system" || v == "sigma-mpa" {
				n.Content[i].SetString(place("{{ .Release.Namespace }}"))
			}
			continue
		}
		if n.Content[i].Kind != yaml.ScalarNode {
			oneNamespace(n.Content[i], place)
		}
	}
}

var (
	alone  = regexp.MustCompile(`(?m)^( *(?:- )?)['"]?«(\d+)»['"]?(?:: null)?$`)
	inline = regexp.MustCompile(`['"]?«(\d+)»['"]?`)
)

// fill puts expressions in place of their marks: in the middle of a line as they are, alone
// in a line with the line's indentation for each of theirs.
func fill(s string, inserted []string) string {
	expression := func(mark []string) string {
		n, err := strconv.Atoi(mark[len(mark)-1])
		if err != nil {
			panic(err) // the pattern has digits only
		}
		return inserted[n]
	}
	s = alone.ReplaceAllStringFunc(s, func(line string) string {
		mark := alone.FindStringSubmatch(line)
		indent := strings.TrimSuffix(mark[1], "- ")
		var b strings.Builder
		for i, l := range strings.Split(expression(mark), "\n") {
			if i > 0 {
				b.WriteByte('\n')
			}
			if !strings.HasPrefix(l, "{{-") {
				b.WriteString(indent)
			}
			b.WriteString(l)
		}
		return b.String()
	})
	return inline.ReplaceAllStringFunc(s, func(mark string) string { return expression(inline.FindStringSubmatch(mark)) })
}
