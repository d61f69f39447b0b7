package lower

var nnRows = []row{}
