package lower

var shapeRows = []row{}
