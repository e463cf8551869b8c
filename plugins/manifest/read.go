package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// A set holds the placement data of manifests.
type set struct {
	notes []string // omissions, with the reasons
	tally tally

	opt       Options
	codecs    serializer.CodecFactory
	workloads []*workload
	rules     []*kube.Rule
	nodes     map[string]*v1.Node
	names     map[string]bool // NAMESPACE/KIND/NAME of the objects that have one, and of the groups of the trace
	unnamed   []unnamed
}

// An unnamed object is one that an API server would name.
type unnamed struct {
	at string
	envelope
	add func(*envelope) error // under its name
}

// Options configure the reading of manifests.
type Options struct {
	Namespace string // of objects without one
	AppLabel  string // label that names a pod's app; "" = its top controller does
}

// A workload is pods of one template.
type workload struct {
	at   string // the file and the document
	name string // NAMESPACE/KIND/NAME
	spec string // the field of the pods' specification
	pods int32
	pod  *v1.Pod
}

// read reads files with any number of documents, and all .yaml, .yml and .json files of
// folders. An error names the file, the document and the field. The names of groups are taken.
func read(paths []string, opt Options, groups []binpack.Group) (*set, error) {
	s, err := newSet(opt)
	if err != nil {
		return nil, err
	}
	for i := range groups {
		s.names[groups[i].Name] = true
	}
	s.opt.Namespace = cmp.Or(opt.Namespace, metav1.NamespaceDefault)
	if problems := validation.IsDNS1123Label(s.opt.Namespace); len(problems) > 0 {
		return nil, fmt.Errorf("namespace %q: %s", s.opt.Namespace, problems[0])
	}
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := s.readFile(file); err != nil {
				return nil, err
			}
		}
	}
	for i := range s.unnamed {
		if err := s.addUnnamed(&s.unnamed[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", s.unnamed[i].at, err)
		}
	}
	if len(s.workloads)+len(s.tally.leftOut)+len(s.tally.notKnown) == 0 {
		return nil, fmt.Errorf("%s: there is no workload: want %s", strings.Join(paths, ", "), workloadKinds)
	}
	s.notes = append(s.notes, s.tally.notes()...)
	return s, nil
}

// newSet returns an empty set.
func newSet(opt Options) (*set, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	s := &set{
		opt: opt, codecs: serializer.NewCodecFactory(scheme, serializer.EnableStrict),
		tally: newTally(), nodes: map[string]*v1.Node{}, names: map[string]bool{},
	}
	return s, nil
}

func (s *set) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// filesOf lists a file, or those of a folder by name.
func filesOf(path string) (files []string, err error) {
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
		case name == path || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
			files = append(files, name)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: there is no .yaml, .yml or .json file", path)
	}
	return files, err
}

func (s *set) readFile(path string) error {
	all, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for n, document := range documentsOf(all) {
		at := fmt.Sprintf("%s, document %d", path, n+1)
		objects, err := document.objects()
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		for _, object := range objects {
			if err := s.readObject(at, object, metav1.TypeMeta{}); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	return nil
}

// An envelope holds the fields that every object has.
type envelope struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
}

// readObject reads one object, as JSON. The items of a list of one kind may omit their kind.
func (s *set) readObject(at string, text []byte, item metav1.TypeMeta) error {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		e = envelope{} // of another shape
		if err := json.Unmarshal(text, &e.TypeMeta); err != nil {
			return errors.New("it is no Kubernetes object")
		}
	}
	if e.Kind == "" && e.APIVersion == "" {
		e.TypeMeta = item
	}
	switch {
	case e.Kind == "":
		return errors.New("kind is missing")
	case e.APIVersion == "":
		return errors.New("apiVersion is missing")
	}
	gvk := e.GroupVersionKind()
	if items, of, ok := itemsOf(text, gvk); ok {
		for i, item := range items {
			if err := s.readObject(at, item, of); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	kind := gvk.GroupKind()
	if noPods[kind] {
		s.tally.noPods[kind]++
		return nil
	}
	var object runtime.Object // nil if it is of no type of ours
	if typed[kind] {
		var err error
		object, _, err = s.codecs.UniversalDeserializer().Decode(text, &gvk, nil)
		if err != nil && !runtime.IsNotRegisteredError(err) {
			var fields map[string]any
			_ = json.Unmarshal(text, &fields) // was read once
			return fmt.Errorf("%s: %w", e.Kind, cmp.Or(badQuantity(fields, "", false), err))
		}
	}
	why := leftOut[kind]
	if above := metav1.GetControllerOf(&e.Metadata); above != nil && e.Kind != "Node" {
		why = fmt.Sprintf("it belongs to %s %s", above.Kind, above.Name)
	}
	if why != "" {
		s.note("%s: %s %s is skipped: %s", at, e.Kind, e.Metadata.Name, why)
		s.tally.leftOut[kind]++
		return nil
	}
	add := func(e *envelope) error {
		if object == nil {
			s.addUnknown(at, text, e, kind)
			return nil
		}
		return s.addNamed(at, object, e)
	}
	if e.Metadata.Name == "" && e.Metadata.GenerateName != "" {
		s.unnamed = append(s.unnamed, unnamed{at, e, add})
		return nil
	}
	return add(&e)
}

// itemsOf returns the items of a list, and their kind if the kind of the list determines it.
func itemsOf(text []byte, list schema.GroupVersionKind) (items []json.RawMessage, of metav1.TypeMeta, ok bool) {
	kind, ok := strings.CutSuffix(list.Kind, "List")
	if !ok {
		return nil, of, false
	}
	var fields struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &fields); err != nil || fields.Items == nil && kind != "" {
		return nil, of, false // a kind with such a name
	}
	for _, item := range fields.Items {
		if kind != "" && !bytes.HasPrefix(item, []byte("{")) {
			return nil, of, false
		}
	}
	if kind != "" {
		of = metav1.TypeMeta{Kind: kind, APIVersion: list.GroupVersion().String()}
	}
	return fields.Items, of, true
}

// addUnnamed adds an object under the first free name with its prefix.
func (s *set) addUnnamed(u *unnamed) error {
	const longest = 58 // of a name without the five characters that an API server draws
	prefix := u.Metadata.GenerateName[:min(len(u.Metadata.GenerateName), longest)]
	for n := 1; ; n++ {
		u.Metadata.Name = prefix + strconv.Itoa(n)
		if !s.names[s.nameOf(&u.envelope)] {
			break
		}
	}
	return u.add(&u.envelope)
}

// nameOf returns NAMESPACE/KIND/NAME.
func (s *set) nameOf(e *envelope) string {
	return cmp.Or(e.Metadata.Namespace, s.opt.Namespace) + "/" + e.Kind + "/" + e.Metadata.Name
}

// nameProblem returns an error if an object cannot have its name.
func nameProblem(e *envelope) error {
	if e.Metadata.Name == "" {
		return fmt.Errorf("%s: metadata.name is missing", e.Kind)
	}
	if problems := validation.IsDNS1123Subdomain(e.Metadata.Name); len(problems) > 0 {
		return fmt.Errorf("%s: metadata.name %q: %s", e.Kind, e.Metadata.Name, problems[0])
	}
	if problems := validation.IsDNS1123Label(e.Metadata.Namespace); e.Metadata.Namespace != "" && len(problems) > 0 {
		return fmt.Errorf("%s %s: metadata.namespace %q: %s", e.Kind, e.Metadata.Name, e.Metadata.Namespace, problems[0])
	}
	return nil
}

func (s *set) addNamed(at string, object runtime.Object, e *envelope) error {
	if err := nameProblem(e); err != nil {
		return err
	}
	s.names[s.nameOf(e)] = true
	if of, ok := object.(metav1.Object); ok && of.GetName() == "" {
		of.SetName(e.Metadata.Name)
		s.note("%s: %s %s* is planned as %s", at, e.Kind, e.Metadata.GenerateName, e.Metadata.Name)
	}
	counts, err := s.add(at, object, e)
	if err != nil {
		return fmt.Errorf("%s %s: %w", e.Kind, e.Metadata.Name, err)
	}
	counts[e.GroupVersionKind().GroupKind()]++
	return nil
}

// badQuantity names the first field, by name, of requests, limits and the like that is not a
// quantity: the decoder's error does not name it. amounts is true if the fields of value
// itself are quantities.
func badQuantity(value any, at string, amounts bool) error {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			if err := badQuantity(item, fmt.Sprintf("%s[%d]", at, i), false); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			field := strings.TrimPrefix(at+"."+key, ".")
			if text, ok := v[key].(string); ok && amounts {
				if _, err := resource.ParseQuantity(text); err != nil {
					return fmt.Errorf("%s %q: want a quantity such as 500m or 1Gi", field, text)
				}
			}
			if err := badQuantity(v[key], field, slices.Contains([]string{"requests", "limits", "overhead", "allocatable", "capacity"}, key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// workloadKinds are those of which pods are planned.
const workloadKinds = "Deployment, StatefulSet, ReplicaSet, ReplicationController, Job or Pod"

// add adds an object of a typed kind that belongs to no other. It returns the count that the object is part of.
func (s *set) add(at string, object runtime.Object, e *envelope) (map[schema.GroupKind]int, error) {
	number := func(n *int32) int32 {
		if n == nil {
			return 1
		}
		return *n
	}
	planned := s.tally.planned
	switch o := object.(type) {
	case *appsv1.Deployment:
		return planned, s.addPods(at, e, "spec.template", "spec.replicas", number(o.Spec.Replicas), &o.Spec.Template)
	case *appsv1.StatefulSet:
		return planned, s.addPods(at, e, "spec.template", "spec.replicas", number(o.Spec.Replicas), &o.Spec.Template)
	case *appsv1.ReplicaSet:
		return planned, s.addPods(at, e, "spec.template", "spec.replicas", number(o.Spec.Replicas), &o.Spec.Template)
	case *v1.ReplicationController:
		if o.Spec.Template == nil {
			return nil, errors.New("spec.template is missing")
		}
		return planned, s.addPods(at, e, "spec.template", "spec.replicas", number(o.Spec.Replicas), o.Spec.Template)
	case *batchv1.Job:
		pods := number(o.Spec.Parallelism)
		if o.Spec.Completions != nil {
			pods = min(pods, *o.Spec.Completions)
		}
		return planned, s.addPods(at, e, "spec.template", "spec.parallelism", pods, &o.Spec.Template)
	case *v1.Pod:
		if o.Spec.NodeName != "" {
			s.note("%s: Pod %s is skipped: it has a node", at, o.Name)
			return s.tally.leftOut, nil
		}
		return planned, s.addPods(at, e, "", "spec", 1, &v1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec})
	case *v1.Node:
		o.Spec.Unschedulable = false // the trace has the cordons
		s.nodes[o.Name] = o
		return s.tally.used, nil
	case *v1alpha1.PlacementRule:
		r, err := kube.NewRule(o)
		if err == nil {
			s.rules = append(s.rules, r)
		}
		return s.tally.used, err
	}
	panic(fmt.Sprintf("manifest: %T is one of the typed kinds and is not counted", object))
}
