// Package namespaces makes an object of the algorithm usage for each Deployment and StatefulSet of the namespaces that
// have the label [Label], and takes the objects away again, after their pods have the requests of their templates.
//
// Objects are written with server-side apply and without force: a field that somebody else has changed stays as it is.
package namespaces
