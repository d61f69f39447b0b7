package lower

var mathRows = []row{}
