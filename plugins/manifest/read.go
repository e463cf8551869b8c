package manifest

import (
	"bufio"
	"bytes"
	"cmp"
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

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// A set is what manifests say about placement.
type set struct {
	notes []string // what was left out, and why

	opt       Options
	codecs    serializer.CodecFactory
	workloads []*workload
	rules     []*kube.Rule
	nodes     map[string]*v1.Node
	skipped   map[string]int // documents without pods, by kind
}

// Options say how manifests are read.
type Options struct {
	Namespace string // of objects that name none
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
// folders. An error names the file, the document and the field.
func read(paths []string, opt Options) (*set, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	s := &set{opt: opt, codecs: serializer.NewCodecFactory(scheme, serializer.EnableStrict), nodes: map[string]*v1.Node{}, skipped: map[string]int{}}
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
	if len(s.workloads) == 0 {
		return nil, fmt.Errorf("%s: there is no workload: want Deployment, StatefulSet, ReplicaSet, Job or Pod", strings.Join(paths, ", "))
	}
	for _, kind := range slices.Sorted(maps.Keys(s.skipped)) {
		s.note("%s: has no pods; skipped: %d", kind, s.skipped[kind])
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
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(all)))
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		at := fmt.Sprintf("%s, document %d", path, n)
		if err == nil {
			text, err = yaml.YAMLToJSONStrict(text)
		}
		if err == nil && !bytes.Equal(text, []byte("null")) {
			err = s.readObject(at, text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
}

// An envelope is what every object has.
type envelope struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Items           []json.RawMessage `json:"items"`
	Spec            struct {
		Template *struct {
			Spec *struct {
				Containers []any `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// readObject reads one object, as JSON.
func (s *set) readObject(at string, text []byte) error {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		e = envelope{} // an object of another shape has no pods
		if err := json.Unmarshal(text, &e.TypeMeta); err != nil {
			return errors.New("it is no Kubernetes object")
		}
	}
	switch {
	case e.Kind == "":
		return errors.New("kind is missing")
	case e.APIVersion == "":
		return errors.New("apiVersion is missing")
	case strings.HasSuffix(e.Kind, "List") && e.Items != nil: // of kubectl get -o yaml
		for i, item := range e.Items {
			if err := s.readObject(at, item); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	object, _, err := s.codecs.UniversalDeserializer().Decode(text, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		if t := e.Spec.Template; t != nil && t.Spec != nil && len(t.Spec.Containers) > 0 {
			return fmt.Errorf("kind %s of %s: its pods cannot be planned: want Deployment, StatefulSet, ReplicaSet, Job or Pod", e.Kind, e.APIVersion)
		}
		s.skipped[e.Kind]++
		return nil
	}
	if err != nil {
		var fields map[string]any
		_ = json.Unmarshal(text, &fields) // was read once
		return fmt.Errorf("%s: %w", e.Kind, cmp.Or(badQuantity(fields, "", false), err))
	}
	if e.Metadata.Name == "" {
		return fmt.Errorf("%s: metadata.name is missing", e.Kind)
	}
	if problems := validation.IsDNS1123Subdomain(e.Metadata.Name); len(problems) > 0 {
		return fmt.Errorf("%s: metadata.name %q: %s", e.Kind, e.Metadata.Name, problems[0])
	}
	if problems := validation.IsDNS1123Label(e.Metadata.Namespace); e.Metadata.Namespace != "" && len(problems) > 0 {
		return fmt.Errorf("%s %s: metadata.namespace %q: %s", e.Kind, e.Metadata.Name, e.Metadata.Namespace, problems[0])
	}
	if above := metav1.GetControllerOf(&e.Metadata); above != nil && e.Kind != "Node" {
		s.note("%s: %s %s is skipped: it belongs to %s %s", at, e.Kind, e.Metadata.Name, above.Kind, above.Name)
		return nil
	}
	if err := s.add(at, object, &e); err != nil {
		return fmt.Errorf("%s %s: %w", e.Kind, e.Metadata.Name, err)
	}
	return nil
}

// badQuantity names the first field, by name, of requests, limits and the like that is no
// quantity: the decoder's error does not say which one. amounts says that the fields of value
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

// add adds an object that belongs to no other.
func (s *set) add(at string, object runtime.Object, e *envelope) error {
	one := int32(1)
	number := func(n *int32) int32 {
		if n == nil {
			return one
		}
		return *n
	}
	switch o := object.(type) {
	case *appsv1.Deployment:
		return s.addPods(at, e, "spec.replicas", number(o.Spec.Replicas), &o.Spec.Template)
	case *appsv1.StatefulSet:
		return s.addPods(at, e, "spec.replicas", number(o.Spec.Replicas), &o.Spec.Template)
	case *appsv1.ReplicaSet:
		return s.addPods(at, e, "spec.replicas", number(o.Spec.Replicas), &o.Spec.Template)
	case *batchv1.Job:
		pods := number(o.Spec.Parallelism)
		if o.Spec.Completions != nil {
			pods = min(pods, *o.Spec.Completions)
		}
		return s.addPods(at, e, "spec.parallelism", pods, &o.Spec.Template)
	case *v1.Pod:
		if o.Spec.NodeName != "" {
			s.note("%s: Pod %s is skipped: it has a node", at, o.Name)
			return nil
		}
		return s.addPods(at, e, "spec", 1, &v1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec})
	case *v1.Node:
		o.Spec.Unschedulable = false // the trace says what was cordoned
		s.nodes[o.Name] = o
	case *v1alpha1.PlacementRule:
		r, err := kube.NewRule(o)
		if err != nil {
			return err
		}
		s.rules = append(s.rules, r)
	case *appsv1.DaemonSet:
		s.note("%s: DaemonSet %s is skipped: its pods have their nodes; what it takes there is not planned for", at, o.Name)
	case *batchv1.CronJob:
		s.note("%s: CronJob %s is skipped: its pods come by its schedule", at, o.Name)
	case *v1.ReplicationController:
		return errors.New("its pods cannot be planned: want Deployment, StatefulSet, ReplicaSet, Job or Pod")
	default:
		s.skipped[e.Kind]++
	}
	return nil
}
