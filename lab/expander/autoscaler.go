// Package expander calls an expander as cluster-autoscaler does. The module of cluster-autoscaler is not served by the module proxy, so its
// client cannot be linked; this one has its interface in the two forms of its .proto (before Kubernetes 1.35, and since), as a descriptor
// and apart from the product's messages, and the rules of its client (expander/grpcplugin/grpc_client.go of kubernetes/autoscaler):
// TLS with one file of authorities, five seconds, and all options where anything fails.
package expander

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	v1 "k8s.io/api/core/v1"
)

// Timeout is the time that cluster-autoscaler waits for an answer.
const Timeout = 5 * time.Second

// An Option is a node group with the pods that would fit on nodes more of it.
type Option struct {
	Group    string
	Nodes    int32
	Template *v1.Node
	Pods     []*v1.Pod
}

// An Autoscaler asks an expander.
type Autoscaler struct {
	conn *grpc.ClientConn
	old  bool // before Kubernetes 1.35
	file protoreflect.FileDescriptor
}

// Dial prepares the calls to an address, whose certificate is of an authority in a file.
func Dial(address, authorities string, old bool) (*Autoscaler, error) {
	creds, err := credentials.NewClientTLSFromFile(authorities, "")
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, err
	}
	var file descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(interfaceText), &file); err != nil {
		return nil, err
	}
	a := &Autoscaler{conn: conn, old: old}
	a.file, err = protodesc.NewFile(&file, nil)
	return a, err
}

// Close ends the connection.
func (a *Autoscaler) Close() error { return a.conn.Close() }

// BestOptions returns the options that the expander leaves, for the next expander of the list. err is the reason for which these are all.
func (a *Autoscaler) BestOptions(ctx context.Context, options []Option) (left []Option, err error) {
	request, err := a.request(options)
	if err != nil {
		return options, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	answer := a.message("BestOptionsResponse")
	if err := a.conn.Invoke(ctx, "/grpcplugin.Expander/BestOptions", request, answer); err != nil {
		return options, err
	}
	list := answer.Get(field(answer, "options")).List()
	if list.Len() == 0 {
		return nil, errors.New("no option is left: no node is added")
	}
	for i := range list.Len() {
		o := list.Get(i).Message()
		group := o.Get(field(o, "nodeGroupId")).String()
		if at := slices.IndexFunc(options, func(o Option) bool { return o.Group == group }); at >= 0 {
			left = append(left, options[at])
		}
	}
	if left == nil {
		return options, errors.New("no answered group is one of the call")
	}
	return left, nil
}

func (a *Autoscaler) message(name protoreflect.Name) *dynamicpb.Message {
	return dynamicpb.NewMessage(a.file.Messages().ByName(name))
}

func field(m protoreflect.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(name)
}

// request is the call's message in the form of the release.
func (a *Autoscaler) request(options []Option) (*dynamicpb.Message, error) {
	r := a.message("BestOptionsRequest")
	list := r.Mutable(field(r, "options")).List()
	nodes, pods := protoreflect.Name("nodeBytesMap"), protoreflect.Name("podBytes")
	if a.old {
		nodes, pods = "nodeMap", "pod"
	}
	byGroup := r.Mutable(field(r, nodes)).Map()
	for _, o := range options {
		m := list.AppendMutable().Message()
		m.Set(field(m, "nodeGroupId"), protoreflect.ValueOfString(o.Group))
		m.Set(field(m, "nodeCount"), protoreflect.ValueOfInt32(o.Nodes))
		m.Set(field(m, "debug"), protoreflect.ValueOfString(o.Group))
		for _, p := range o.Pods {
			text, err := p.Marshal()
			if err != nil {
				return nil, err
			}
			m.Mutable(field(m, pods)).List().Append(a.object(text))
		}
		text, err := o.Template.Marshal()
		if err != nil {
			return nil, err
		}
		byGroup.Set(protoreflect.ValueOfString(o.Group).MapKey(), a.object(text))
	}
	return r, nil
}

// object is an encoded pod or node: before 1.35 a message, of which this descriptor need not have the fields.
func (a *Autoscaler) object(text []byte) protoreflect.Value {
	if !a.old {
		return protoreflect.ValueOfBytes(text)
	}
	m := a.message("Object")
	m.SetUnknown(text)
	return protoreflect.ValueOfMessage(m)
}

// interfaceText describes the messages of the interface, with the names and numbers that cluster-autoscaler gives them. Object takes the
// place of Node and Pod of k8s.io/api/core/v1.
const interfaceText = `
name: "autoscaler.proto" package: "grpcplugin" syntax: "proto3"
message_type {
  name: "BestOptionsRequest"
  field { name: "options" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".grpcplugin.Option" }
  field { name: "nodeMap" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".grpcplugin.BestOptionsRequest.NodeMapEntry" }
  field { name: "nodeBytesMap" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".grpcplugin.BestOptionsRequest.NodeBytesMapEntry" }
  nested_type {
    name: "NodeMapEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpcplugin.Object" }
  }
  nested_type {
    name: "NodeBytesMapEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
  }
}
message_type {
  name: "BestOptionsResponse"
  field { name: "options" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".grpcplugin.Option" }
}
message_type {
  name: "Option"
  field { name: "nodeGroupId" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "nodeCount" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "debug" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "pod" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".grpcplugin.Object" }
  field { name: "podBytes" number: 5 label: LABEL_REPEATED type: TYPE_BYTES }
}
message_type { name: "Object" }
`
